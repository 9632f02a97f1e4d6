-- Which rows of a stored table with a column `tenant` are a tenant's.
tenant = {tenant:String}
