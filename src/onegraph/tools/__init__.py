"""What a person looks at: logs, explanations, dumps, progress. Tools only subscribe to the event stream."""
