import { LABEL_SELECTOR, NOTHING, OBJECT_META } from './messages-meta.ts';
import { INT, TEXT, given, list, message } from './wire.ts';

const CONTAINER = message({
  name: [1, given(TEXT)],
  image: [2, TEXT],
  command: [3, list(TEXT)],
  ports: [6, list(message({ containerPort: [3, given(INT)] }))],
  resources: [8, NOTHING],
});

const POD_TEMPLATE_SPEC = message({
  metadata: [1, OBJECT_META],
  spec: [2, message({ containers: [2, list(CONTAINER)] })],
});

const DEPLOYMENT_SPEC = message({
  replicas: [1, given(INT)],
  selector: [2, LABEL_SELECTOR],
  template: [3, POD_TEMPLATE_SPEC],
  strategy: [4, NOTHING],
});

export const DEPLOYMENT = message({
  metadata: [1, OBJECT_META],
  spec: [2, DEPLOYMENT_SPEC],
  status: [3, NOTHING],
});
