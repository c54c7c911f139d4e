"""Campaign mail: nobody is mailed twice."""
