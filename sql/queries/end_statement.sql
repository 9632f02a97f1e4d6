-- Purpose: end a running statement, which then fails with QUERY_WAS_CANCELLED.
-- Parameters: mark: what it carries as its log_comment.
-- Result: nothing of use.
KILL QUERY WHERE Settings['log_comment'] = {mark:String} ASYNC
