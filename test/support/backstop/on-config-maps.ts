import type { Resource } from '../../../src/kube/object.ts';
import { configMaps } from '../../../src/kube/well-known.ts';
import { ASKS, creates, idOf, merges, meta, TENANT } from './attack.ts';
import type { Attempt, Json, Strings } from './attack.ts';

const configMap = (name: string, annotations: Strings = {}): readonly [Resource, Json] => [
  configMaps,
  { ...meta(name, annotations, TENANT), data: { 'ca.crt': '', setting: 'on' } },
];
const COPY = 'gatehouse.dev/distributed-bundle';
const copyOf = (name: string, place: string, data: Strings): Json => ({
  metadata: { name, namespace: TENANT, labels: { [COPY]: 'true' }, annotations: { [COPY]: place } },
  data,
});

const attack = (name: string, annotations: Strings, patch: object): Attempt => ({
  name,
  before: configMap(idOf(name), annotations),
  write: merges(configMaps, idOf(name), patch, TENANT),
});
const asking = { metadata: { annotations: ASKS } };

export const ON_CONFIG_MAPS: readonly Attempt[] = [
  {
    name: 'a ConfigMap',
    write: creates(configMaps, { ...meta('coredns', {}, 'kube-system'), data: { Corefile: '' } }),
  },
  {
    name: 'a ConfigMap that names another place as a copy',
    write: creates(configMaps, copyOf('copy', 'other/copy', { 'ca.crt': '' })),
  },
  {
    name: 'a copy with more than a bundle',
    write: creates(configMaps, copyOf('rich-copy', `${TENANT}/rich-copy`, { 'ca.crt': '', setting: 'off' })),
  },
  attack('a ConfigMap that did not ask', {}, { data: { 'ca.crt': 'x' } }),
  attack('a ConfigMap that asks only because of the same write', {}, { ...asking, data: { 'ca.crt': 'x' } }),
  attack('the request alone, as a first step', {}, asking),
  attack('another key of a ConfigMap that asks', ASKS, { data: { setting: 'off' } }),
  attack('another key, chosen in the same write', ASKS, {
    metadata: { annotations: { 'gatehouse.dev/inject-cabundle-key': 'setting' } },
    data: { setting: 'off' },
  }),
  attack('binary data of a ConfigMap that asks', ASKS, { binaryData: { more: 'eA==' } }),
  attack(
    'a request for OpenShift, which this cluster does not honour',
    { 'service.beta.openshift.io/inject-cabundle': 'true' },
    { data: { 'service-ca.crt': 'x' } },
  ),
  attack(
    'the ConfigMap of a tenant, turned into a copy',
    {},
    {
      metadata: {
        labels: { [COPY]: 'true' },
        annotations: { [COPY]: `${TENANT}/the-configmap-of-a-tenant-turned-into-a-copy` },
      },
      data: { setting: null, 'ca.crt': 'x' },
    },
  ),
  {
    name: 'the ConfigMap of a tenant, deleted',
    before: configMap('deleted'),
    write: (client) => client.delete(configMaps, { name: 'deleted', namespace: TENANT }),
  },
  {
    name: 'the fields of other managers',
    before: configMap('managed'),
    write: (client) =>
      client.patchJson(configMaps, { name: 'managed', namespace: TENANT }, [
        { op: 'replace', path: '/metadata/managedFields', value: [{}] },
      ]),
  },
];
