"""A subset of Hadoop's messages: rpc_pb2 (headers, SASL), yarn_pb2 (application masters), yarn_client_pb2 (clients),
yarn_server_pb2 (NodeManagers).
"""
