"""From an upload to pictures and renditions: uploads, arrivals, jobs, their queues, quotas and workers."""
