import type { Resource } from '../../../src/kube/object.ts';
import { configMaps } from '../../../src/kube/well-known.ts';
import { ASKS, creates, merges, meta, TENANT, type Attempt, type Json, type Strings } from './attack.ts';

const configMap = (name: string, annotations: Strings = {}): readonly [Resource, Json] => [
  configMaps,
  { ...meta(name, annotations, TENANT), data: { 'ca.crt': '', setting: 'on' } },
];
const COPY = 'gatehouse.dev/distributed-bundle';
const copyOf = (name: string, place: string, data: Strings): Json => ({
  metadata: { name, namespace: TENANT, labels: { [COPY]: 'true' }, annotations: { [COPY]: place } },
  data,
});

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
  {
    name: 'a ConfigMap that did not ask',
    before: configMap('not-asking'),
    write: merges(configMaps, 'not-asking', { data: { 'ca.crt': 'x' } }, TENANT),
  },
  {
    name: 'a ConfigMap that asks only because of the same write',
    before: configMap('asked-now'),
    write: merges(
      configMaps,
      'asked-now',
      { metadata: { annotations: ASKS }, data: { 'ca.crt': 'x' } },
      TENANT,
    ),
  },
  {
    name: 'the request alone, as a first step',
    before: configMap('asked-first'),
    write: merges(configMaps, 'asked-first', { metadata: { annotations: ASKS } }, TENANT),
  },
  {
    name: 'another key of a ConfigMap that asks',
    before: configMap('other-key', ASKS),
    write: merges(configMaps, 'other-key', { data: { setting: 'off' } }, TENANT),
  },
  {
    name: 'another key, chosen in the same write',
    before: configMap('chosen-key', ASKS),
    write: merges(
      ...([configMaps, 'chosen-key'] as const),
      {
        metadata: { annotations: { 'gatehouse.dev/inject-cabundle-key': 'setting' } },
        data: { setting: 'off' },
      },
      TENANT,
    ),
  },
  {
    name: 'binary data of a ConfigMap that asks',
    before: configMap('binary', ASKS),
    write: merges(configMaps, 'binary', { binaryData: { more: 'eA==' } }, TENANT),
  },
  {
    name: 'a request for OpenShift, which this cluster does not honour',
    before: configMap('openshift', { 'service.beta.openshift.io/inject-cabundle': 'true' }),
    write: merges(configMaps, 'openshift', { data: { 'service-ca.crt': 'x' } }, TENANT),
  },
  {
    name: 'the ConfigMap of a tenant, turned into a copy',
    before: configMap('turned'),
    write: merges(
      ...([configMaps, 'turned'] as const),
      {
        metadata: { labels: { [COPY]: 'true' }, annotations: { [COPY]: `${TENANT}/turned` } },
        data: { setting: null, 'ca.crt': 'x' },
      },
      TENANT,
    ),
  },
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
