import type { Api } from '../api.ts';
import { group } from '../case.ts';
import { configMap, gadget, gadgets, permit, widget, widgets } from '../fixtures.ts';

const leases = ({ id }: Api, rest = '') => `/apis/coordination.k8s.io/v1/namespaces/${id}/leases${rest}`;

export const updating = group('updating', {
  'an update with the current version succeeds': async (api) => {
    const { object } = await api.create('configmaps', configMap('a', { n: '1' }));
    await api.update('configmaps/a', { ...object, data: { n: '2' } });
  },
  'an update without a version overwrites': async (api) => {
    await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.update('configmaps/a', configMap('a', { n: '2' }));
  },
  'an update with an old version is a conflict': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.update('configmaps/a', configMap('a', { n: '2' }));
    await api.update('configmaps/a', { ...object, data: { n: '3' } });
  },
  'an update of a custom resource with an old version is a conflict': async (api) => {
    const { object } = await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.update(widgets(api, '/a'), { ...object, spec: { size: 2 } });
    await api.update(widgets(api, '/a'), { ...object, spec: { size: 3 } });
  },
  'an update of a custom resource needs a version': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.update(widgets(api, '/a'), widget('a', { size: 2 }));
  },
  'an update that changes nothing keeps the version': async (api) => {
    const { object } = await api.create(widgets(api), widget('a', { size: 1 }));
    await api.update(widgets(api, '/a'), object);
  },
  'an update of a missing object is not found': async (api) => {
    await api.update('configmaps/missing', configMap('missing'));
    await api.update(widgets(api, '/missing'), widget('missing', {}, { resourceVersion: '1' }));
  },
  'an update of what is not there is not found, even with a uid': {
    since: '1.35', // registry.Store.Update tolerates a missing object only for kinds with AllowCreateOnUpdate
    run: async (api) => {
      const uid = '00000000-0000-0000-0000-000000000000';
      await api.update('configmaps/missing', configMap('missing', {}, { uid }));
    },
  },
  'an update creates objects of some kinds': async (api) => {
    const lease = { metadata: { name: 'a' }, spec: { holderIdentity: '', leaseDurationSeconds: 15 } };
    await api.update(leases(api, '/a'), lease);
    await api.update('endpoints/a', { metadata: { name: 'a' } });
    const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }];
    const roles = `/apis/rbac.authorization.k8s.io/v1/namespaces/${api.id}/roles`;
    await api.update(`${roles}/a`, { metadata: { name: 'a' }, rules });
  },
  'an update that creates ignores the version but not the uid': async (api) => {
    const lease = (metadata: object) => ({ metadata: { name: 'a', ...metadata }, spec: {} });
    await api.update(leases(api, '/a'), lease({ uid: '00000000-0000-0000-0000-000000000000' }));
    await api.update(leases(api, '/a'), lease({ resourceVersion: '7' }));
  },
  'update cannot create without create permission': async (api) => {
    const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['update', 'get'] }];
    await permit(api, rules);
    await api.as('alice').until(leases(api, '/a'), ({ status }) => status !== 403);
    await api.as('alice').update(leases(api, '/a'), { metadata: { name: 'a' }, spec: {} });
  },
  'an update without a version does not overwrite objects of some kinds': async (api) => {
    await api.given.create(leases(api), { metadata: { name: 'a' }, spec: {} });
    await api.update(leases(api, '/a'), { metadata: { name: 'a' }, spec: { holderIdentity: 'b' } });
    const hooks = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
    const name = `${api.id}-empty`;
    await api.given.create(hooks, { metadata: { name }, webhooks: [] });
    await api.update(`${hooks}/${name}`, { metadata: { name, labels: { a: 'b' } }, webhooks: [] });
  },
  'an update with another uid is a conflict': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    const uid = '00000000-0000-0000-0000-000000000000';
    await api.update('configmaps/a', configMap('a', { n: '2' }, { uid }));
  },
  'the name in the body must match the path': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.update('configmaps/a', configMap('b'));
    await api.update('configmaps/a', { data: {} });
  },
  'the namespace in the body must match the path': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.update('configmaps/a', configMap('a', {}, { namespace: 'default' }));
  },
  'fields that only the server sets are unchanged': async (api) => {
    const { object } = await api.create(widgets(api), widget('a', { size: 1 }));
    const { name, resourceVersion } = object.metadata;
    const metadata = { name, resourceVersion, generation: 9, creationTimestamp: '2001-01-01T00:00:00Z' };
    await api.update(widgets(api, '/a'), { ...object, metadata });
  },
  'a change of the spec raises the generation, a label does not': async (api) => {
    const { object } = await api.create(widgets(api), widget('a', { size: 1 }));
    const labelled = { ...object, metadata: { ...object.metadata, labels: { a: 'b' } } };
    const second = await api.update(widgets(api, '/a'), labelled);
    await api.update(widgets(api, '/a'), { ...second.object, spec: { size: 2 } });
  },
  'without a status subresource every change raises the generation': async (api) => {
    const name = `${api.id}-a`;
    const { object } = await api.create(gadgets(), gadget(name, { spec: { a: 1 } }));
    const second = await api.update(gadgets(`/${name}`), { ...object, status: { b: 1 } });
    await api.update(gadgets(`/${name}`), {
      ...second.object,
      metadata: { ...second.object.metadata, labels: { a: 'b' } },
    });
  },
  'a status write of a built-in kind also writes metadata': async (api) => {
    const path = `/api/v1/namespaces/${api.id}`;
    await api.patch(`${path}/status`, 'merge', {
      metadata: { annotations: { a: 'b' } },
      spec: { finalizers: ['example.com/c'] },
    });
  },
  'status is dropped on creation if it is a subresource': async (api) => {
    await api.create(widgets(api), { ...widget('a', { size: 1 }), status: { phase: 'Forged' } });
  },
  'an update ignores status': async (api) => {
    const { object } = await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.update(widgets(api, '/a'), { ...object, status: { phase: 'Forged' } });
  },
  'an update of status ignores everything else': async (api) => {
    const { object } = await api.given.create(widgets(api), widget('a', { size: 1 }));
    const metadata = { ...object.metadata, labels: { a: 'b' }, annotations: { c: 'd' } };
    await api.update(widgets(api, '/a/status'), {
      ...object,
      metadata,
      spec: { size: 2 },
      status: { phase: 'Ready' },
    });
  },
  'status is read at its own path': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    await api.get(widgets(api, '/a/status'));
  },
  'status is validated by its schema': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a/status'), 'merge', { status: { observed: 'many' } });
  },
  'a kind without a status subresource has no such path': async (api) => {
    const name = `${api.id}-a`;
    await api.given.create(gadgets(), gadget(name));
    await api.get(gadgets(`/${name}/status`));
    await api.patch(gadgets(`/${name}/status`), 'merge', { status: {} });
    await api.get('configmaps/a/status');
  },
  'the status of a Namespace is a subresource': async (api) => {
    const path = `/api/v1/namespaces/${api.id}`;
    await api.patch(`${path}/status`, 'merge', {
      status: { conditions: [{ type: 'Odd', status: 'True', lastTransitionTime: '2030-01-01T00:00:00Z' }] },
    });
  },
});
