"""Processing of uploaded source files: uploads, S3 notifications, jobs, job queues, quotas and workers."""
