"""The site file: queues, quotas, pools, policies, as an admin wrote them, read into what core/site.py knows."""
