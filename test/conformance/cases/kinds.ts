import type { Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap } from '../fixtures.ts';
import { upToColon } from '../wording.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const secret = (more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'a' },
  ...more,
});
const service = (spec: object, name = 'a') => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { selector: { app: 'a' }, ...spec },
});
const spec = ({ spec }: Loose) => spec;

export const kinds = group('kinds', {
  'stringData of a Secret becomes data': async (api) => {
    await api.create(
      'secrets',
      secret({ data: { one: base64('1'), two: base64('2') }, stringData: { two: 'II' } }),
    );
  },
  'stringData in a patch becomes data': async (api) => {
    await api.given.create('secrets', secret({ stringData: { one: '1' } }));
    await api.patch('secrets/a', 'merge', { stringData: { two: '2' } });
  },
  'the type of a Secret defaults to Opaque': async (api) => {
    await api.create('secrets', secret());
  },
  'the type of a Secret cannot be changed': async (api) => {
    await api.given.create('secrets', secret({ type: 'example.com/one' }));
    await api.patch('secrets/a', 'merge', { type: 'example.com/two' });
  },
  'data of a Secret is base64': {
    run: async (api) => {
      await api.create('secrets', secret({ data: { one: 'not base64!' } }));
    },
    normalise: upToColon,
  },
  'a key of a Secret must be a file name': async (api) => {
    await api.create('secrets', secret({ stringData: { 'bad/key': 'x' } }));
  },
  'a TLS Secret has a certificate and a key': async (api) => {
    await api.create('secrets', secret({ type: 'kubernetes.io/tls', data: { 'tls.crt': base64('x') } }));
  },
  'an immutable Secret keeps its data': async (api) => {
    await api.given.create('secrets', secret({ stringData: { one: '1' }, immutable: true }));
    await api.patch('secrets/a', 'merge', { stringData: { one: '2' } });
    await api.patch('secrets/a', 'merge', { immutable: false });
    await api.patch('secrets/a', 'merge', { metadata: { labels: { may: 'change' } } });
  },
  'an immutable ConfigMap keeps its data': async (api) => {
    await api.given.create('configmaps', { ...configMap('a', { one: '1' }), immutable: true });
    await api.patch('configmaps/a', 'merge', { data: { one: '2' } });
    await api.patch('configmaps/a', 'merge', { immutable: null });
  },
  'a key of a ConfigMap must be a file name': async (api) => {
    await api.create('configmaps', configMap('a', { 'bad/key': 'x' }));
  },
  'a key is in data or binaryData of a ConfigMap, not in both': async (api) => {
    await api.create('configmaps', { ...configMap('a', { one: 'x' }), binaryData: { one: base64('x') } });
  },
  'a ConfigMap keeps binary data': async (api) => {
    await api.create('configmaps', { ...configMap('a'), binaryData: { one: base64('\u0000\u0001') } });
  },
  'a ConfigMap may not be larger than 1 MiB': async (api) => {
    await api.create('configmaps', configMap('a', { big: 'x'.repeat(1024 * 1024 + 1) }));
  },
  'a Service gets an address and defaults': async (api) => {
    await api.create('services', service({ ports: [{ port: 80 }] }));
  },
  'a Service needs ports': async (api) => {
    await api.create('services', service({}));
  },
  'several ports of a Service need names': async (api) => {
    await api.create('services', service({ ports: [{ port: 80 }, { port: 81 }] }));
  },
  'port names of a Service must be unique': async (api) => {
    const ports = [
      { name: 'a', port: 80 },
      { name: 'a', port: 81 },
    ];
    await api.create('services', service({ ports }));
  },
  'port numbers of a Service must be unique': async (api) => {
    const ports = [
      { name: 'a', port: 80 },
      { name: 'b', port: 80 },
    ];
    await api.create('services', service({ ports }));
  },
  'a port of a Service is from 1 to 65535': async (api) => {
    await api.create('services', service({ ports: [{ port: 0 }] }));
    await api.create('services', service({ ports: [{ port: 65536, targetPort: 'no good' }] }));
  },
  'the address of a Service is immutable': async (api) => {
    const { object } = await api.given.create('services', service({ ports: [{ port: 80 }] }));
    const ports = [{ port: 81 }];
    await api.update(
      'services/a',
      { ...object, spec: { ...(object.spec as object), ports } },
      { show: spec },
    );
    await api.patch('services/a', 'merge', { spec: { clusterIP: '10.0.0.200', clusterIPs: ['10.0.0.200'] } });
  },
  'a Service may be headless': async (api) => {
    await api.create('services', service({ clusterIP: 'None', ports: [{ port: 80 }] }), { show: spec });
  },
  'a Service may be an ExternalName': async (api) => {
    const { metadata } = service({});
    await api.create('services', {
      metadata,
      spec: { type: 'ExternalName', externalName: 'db.example.com' },
    });
  },
  'an ExternalName must be a DNS name': async (api) => {
    const { metadata } = service({});
    await api.create('services', { metadata, spec: { type: 'ExternalName', externalName: 'No Name' } });
  },
  'a Service of an unknown type is rejected': async (api) => {
    await api.create('services', service({ type: 'Magic', ports: [{ port: 80 }] }));
  },
  'the name of a Service is a DNS label': {
    run: async (api) => {
      await api.create('services', service({ ports: [{ port: 80 }] }, 'with.dot'));
    },
    normalise: upToColon, // RelaxedServiceNameValidation (1.34) makes it another kind of label
  },
  'a namespace is active and has a finalizer': async (api) => {
    await api.create('/api/v1/namespaces', { metadata: { name: `${api.id}-new` } });
  },
  'a namespace bears its name as a label': async (api) => {
    const { object } = await api.given.get(`/api/v1/namespaces/${api.id}`);
    const { labels } = object.metadata;
    // The harness removes that label from transcripts, so it is recorded under another name.
    api.note('label', (labels as Record<string, string>)['kubernetes.io/metadata.name']);
  },
  'a ServiceAccount is created': async (api) => {
    await api.create('serviceaccounts', { metadata: { name: 'robot' } });
  },
  'an Event is created': async (api) => {
    const involvedObject = { kind: 'ConfigMap', namespace: api.id, name: 'a' };
    await api.create('events', {
      metadata: { name: 'a' },
      involvedObject,
      reason: 'Seen',
      message: 'somebody came by',
      type: 'Normal',
      source: { component: 'conformance' },
      firstTimestamp: '2030-01-01T00:00:00Z',
      lastTimestamp: '2030-01-01T00:00:00Z',
      count: 1,
    });
  },
  'an Event is in the namespace of its object': async (api) => {
    const involvedObject = { kind: 'ConfigMap', namespace: 'default', name: 'a' };
    await api.create('events', { metadata: { name: 'a' }, involvedObject });
  },
  'a Lease is created and renewed': async (api) => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${api.id}/leases`;
    const spec = { holderIdentity: 'a', leaseDurationSeconds: 15, renewTime: '2030-01-01T00:00:00.000000Z' };
    const { object } = await api.create(leases, { metadata: { name: 'a' }, spec });
    await api.update(`${leases}/a`, {
      ...object,
      spec: { ...spec, holderIdentity: 'b', leaseTransitions: 1 },
    });
  },
  'a Lease has a positive duration': async (api) => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${api.id}/leases`;
    await api.create(leases, {
      metadata: { name: 'a' },
      spec: { holderIdentity: 'a', leaseDurationSeconds: 0 },
    });
  },
});
