"""The intermediate representation and what every pass needs to work on it."""
