import { NOTHING, OBJECT_META } from './messages-meta.ts';
import { INT_OR_STRING } from './values.ts';
import { BYTES, INT, TEXT, given, list, map, message } from './wire.ts';

export const CONFIG_MAP = message({
  metadata: [1, OBJECT_META],
  data: [2, map(TEXT)],
  binaryData: [3, map(BYTES)],
});

export const NAMESPACE = message({
  metadata: [1, OBJECT_META],
  spec: [2, NOTHING],
  status: [3, NOTHING],
});

export const SECRET = message({
  metadata: [1, OBJECT_META],
  data: [2, map(BYTES)],
  type: [3, TEXT],
});

export const SERVICE_ACCOUNT = message({ metadata: [1, OBJECT_META] });

const SERVICE_PORT = message({
  name: [1, TEXT],
  protocol: [2, TEXT],
  port: [3, given(INT)],
  targetPort: [4, INT_OR_STRING],
  nodePort: [5, INT],
});

const SERVICE_SPEC = message({
  ports: [1, list(SERVICE_PORT)],
  selector: [2, map(TEXT)],
  clusterIP: [3, TEXT],
  type: [4, TEXT],
  externalName: [10, TEXT],
});

export const SERVICE = message({
  metadata: [1, OBJECT_META],
  spec: [2, SERVICE_SPEC],
  status: [3, message({ loadBalancer: [1, NOTHING] })],
});
