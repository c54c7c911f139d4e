"""The main job, shown: thirty leads land on five reps and in the CRM, in front of your eyes."""
