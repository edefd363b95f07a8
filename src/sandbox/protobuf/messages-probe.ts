import { INT_OR_STRING } from './values.ts';
import { INT, TEXT, given, list, message } from './wire.ts';

const EXEC_ACTION = message({
  command: [1, list(TEXT)],
});

const HTTP_HEADER = message({
  name: [1, given(TEXT)],
  value: [2, given(TEXT)],
});

const HTTP_GET_ACTION = message({
  path: [1, TEXT],
  port: [2, INT_OR_STRING],
  host: [3, TEXT],
  scheme: [4, TEXT],
  httpHeaders: [5, list(HTTP_HEADER)],
});

const TCP_SOCKET_ACTION = message({
  port: [1, INT_OR_STRING],
  host: [2, TEXT],
});

const GRPC_ACTION = message({
  port: [1, given(INT)],
  service: [2, given(TEXT)],
});

const PROBE_HANDLER = message({
  exec: [1, EXEC_ACTION],
  httpGet: [2, HTTP_GET_ACTION],
  tcpSocket: [3, TCP_SOCKET_ACTION],
  grpc: [4, GRPC_ACTION],
});

export const PROBE = message(
  {
    initialDelaySeconds: [2, INT],
    timeoutSeconds: [3, INT],
    periodSeconds: [4, INT],
    successThreshold: [5, INT],
    failureThreshold: [6, INT],
    terminationGracePeriodSeconds: [7, given(INT)],
  },
  { 1: PROBE_HANDLER },
);

const SLEEP_ACTION = message({
  seconds: [1, given(INT)],
});

const LIFECYCLE_HANDLER = message({
  exec: [1, EXEC_ACTION],
  httpGet: [2, HTTP_GET_ACTION],
  tcpSocket: [3, TCP_SOCKET_ACTION],
  sleep: [4, SLEEP_ACTION],
});

export const LIFECYCLE = message({
  postStart: [1, LIFECYCLE_HANDLER],
  preStop: [2, LIFECYCLE_HANDLER],
});
