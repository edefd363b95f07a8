import type { Schema } from '../../schema/schema.ts';
import {
  atomic,
  INT32,
  INT64,
  keyedList,
  listOf,
  object,
  openObject,
  STRING,
  STRINGS,
  STRINGS_BY_KEY,
  withDefault,
} from '../schema-builders.ts';

// The sandbox does not run pods and stores most fields unchanged. The schema only has the lists that merge by key,
// because `kubectl apply` sends partial lists, what is atomic at the top, and the defaults that every pod shows.

const open = openObject({});

const PROBE = openObject({ exec: openObject({ command: STRINGS }) });

const CONTAINER = openObject({
  name: STRING,
  image: STRING,
  command: STRINGS,
  args: STRINGS,
  env: keyedList(openObject({ name: STRING, value: STRING }), ['name']),
  ports: keyedList(openObject({ name: STRING, containerPort: INT32, protocol: withDefault(STRING, 'TCP') }), [
    'containerPort',
    'protocol',
  ]),
  resources: withDefault(open, {}),
  volumeMounts: keyedList(openObject({ name: STRING, mountPath: STRING }), ['mountPath']),
  ...{ livenessProbe: PROBE, readinessProbe: PROBE, startupProbe: PROBE },
  volumeDevices: keyedList(openObject({ name: STRING, devicePath: STRING }), ['devicePath']),
  terminationMessagePath: withDefault(STRING, '/dev/termination-log'),
  terminationMessagePolicy: withDefault(STRING, 'File'),
  imagePullPolicy: STRING,
});

const byName = (items: Schema) => keyedList(items, ['name']);
const NAMED = openObject({ name: STRING });

/** core/v1 PodSpec. */
export const POD_SPEC: Schema = openObject({
  containers: byName(CONTAINER),
  initContainers: byName(CONTAINER),
  ephemeralContainers: byName(CONTAINER),
  volumes: { ...byName(NAMED), 'x-kubernetes-patch-strategy': 'merge,retainKeys' },
  imagePullSecrets: byName(NAMED),
  resourceClaims: byName(NAMED),
  hostAliases: keyedList(openObject({ ip: STRING }), ['ip']),
  topologySpreadConstraints: keyedList(openObject({ topologyKey: STRING, whenUnsatisfiable: STRING }), [
    'topologyKey',
    'whenUnsatisfiable',
  ]),
  nodeName: STRING,
  nodeSelector: atomic(STRINGS_BY_KEY),
  tolerations: listOf(open),
  serviceAccountName: STRING,
  serviceAccount: STRING,
  restartPolicy: withDefault(STRING, 'Always'),
  terminationGracePeriodSeconds: withDefault(INT64, 30),
  dnsPolicy: withDefault(STRING, 'ClusterFirst'),
  securityContext: withDefault(open, {}),
  schedulerName: withDefault(STRING, 'default-scheduler'),
});

/** core/v1 PodTemplateSpec. */
export const POD_TEMPLATE: Schema = object({
  metadata: openObject({ labels: STRINGS_BY_KEY, annotations: STRINGS_BY_KEY }),
  spec: POD_SPEC,
});
