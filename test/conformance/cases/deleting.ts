import type { Api, Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, gadget, gadgets, widget, widgets } from '../fixtures.ts';

const HOLD = { finalizers: ['example.com/hold'] };

const names = ({ items }: Loose) => (items as readonly Loose[]).map(({ metadata }) => metadata.name);

/** An owner and a ConfigMap that it owns. */
async function givenFamily(api: Api, more: object = {}): Promise<void> {
  const owner = await api.given.create('configmaps', configMap('owner'));
  const { name, uid } = owner.object.metadata;
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, ...more }];
  await api.given.create('configmaps', configMap('owned', undefined, { ownerReferences }));
}

const gone = (api: Api, path: string) => api.until(path, ({ status }) => status === 404);

export const deleting = group('deleting', {
  'a deleted object is gone': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.delete('configmaps/a');
    await api.get('configmaps/a');
  },
  'a deleted custom resource is gone': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    await api.delete(widgets(api, '/a'));
    await api.get(widgets(api, '/a'));
  },
  'a missing object cannot be deleted': async (api) => {
    await api.delete('configmaps/missing');
    await api.delete(widgets(api, '/missing'));
  },
  'a deletion with another uid is a conflict': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    const uid = '00000000-0000-0000-0000-000000000000';
    await api.delete('configmaps/a', { preconditions: { uid } });
  },
  'a deletion with an old version is a conflict': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a'));
    await api.given.patch('configmaps/a', 'merge', { data: { n: '1' } });
    const { resourceVersion } = object.metadata;
    await api.delete('configmaps/a', { preconditions: { resourceVersion } });
  },
  'a deletion with the right uid and version succeeds': async (api) => {
    const { object } = await api.given.create(widgets(api), widget('a'));
    const { uid, resourceVersion } = object.metadata;
    await api.delete(widgets(api, '/a'), { preconditions: { uid, resourceVersion } });
  },
  'DeleteOptions of any group version are understood': async (api) => {
    for (const apiVersion of ['v1', 'meta.k8s.io/v1']) {
      await api.given.create('configmaps', configMap('a'));
      await api.delete('configmaps/a', { apiVersion, kind: 'DeleteOptions' });
    }
  },
  'a propagationPolicy has three values': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.delete('configmaps/a?propagationPolicy=Sideways');
  },
  'orphanDependents and propagationPolicy exclude each other': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.delete('configmaps/a', { orphanDependents: true, propagationPolicy: 'Background' });
  },
  'a finalizer keeps a deleted object': async (api) => {
    await api.given.create('configmaps', configMap('a', undefined, HOLD));
    await api.delete('configmaps/a');
    await api.get('configmaps/a');
  },
  'a finalizer keeps a deleted custom resource': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }, HOLD));
    await api.delete(widgets(api, '/a'));
    await api.get(widgets(api, '/a'));
  },
  'a second deletion changes nothing': async (api) => {
    await api.given.create(widgets(api), widget('a', {}, HOLD));
    await api.delete(widgets(api, '/a'));
    await api.delete(widgets(api, '/a'));
  },
  'removing the last finalizer removes the object': async (api) => {
    await api.given.create('configmaps', configMap('a', undefined, HOLD));
    await api.given.delete('configmaps/a');
    await api.patch('configmaps/a', 'merge', { metadata: { finalizers: null } });
    await api.get('configmaps/a');
  },
  'an update without finalizers removes a deleted object': async (api) => {
    await api.given.create(widgets(api), widget('a', {}, HOLD));
    await api.given.delete(widgets(api, '/a'));
    const { object } = await api.given.get(widgets(api, '/a'));
    const metadata = { ...object.metadata, finalizers: [] };
    await api.update(widgets(api, '/a'), { ...object, metadata });
    await api.get(widgets(api, '/a'));
  },
  'an object that is being deleted gets no new finalizers': async (api) => {
    await api.given.create('configmaps', configMap('a', undefined, HOLD));
    await api.given.delete('configmaps/a');
    const finalizers = ['example.com/hold', 'example.com/more'];
    await api.patch('configmaps/a', 'merge', { metadata: { finalizers } });
  },
  'a custom resource that is being deleted gets no new finalizers': async (api) => {
    await api.given.create(widgets(api), widget('a', {}, HOLD));
    await api.given.delete(widgets(api, '/a'));
    const finalizers = ['example.com/hold', 'example.com/more'];
    await api.patch(widgets(api, '/a'), 'merge', { metadata: { finalizers } });
  },
  'an object that is being deleted may otherwise be changed': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }, HOLD));
    await api.given.delete(widgets(api, '/a'));
    await api.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
  },
  'a name can be reused after deletion, for a new object': async (api) => {
    await api.create('configmaps', configMap('a'));
    await api.given.delete('configmaps/a');
    await api.create('configmaps', configMap('a'));
  },
  'a collection deletion deletes the selected objects': async (api) => {
    for (const [name, tier] of Object.entries({ a: 'web', b: 'db', c: 'web' }))
      await api.given.create('configmaps', configMap(name, undefined, { labels: { tier } }));
    await api.delete('configmaps?labelSelector=tier%3Dweb', undefined, { show: names });
    await api.get('configmaps', { show: names });
  },
  'a collection deletion returns the deleted objects': async (api) => {
    await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.delete('configmaps');
  },
  'a collection deletion of custom resources returns the deleted objects': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.create(widgets(api), widget('b', { size: 1 }, HOLD));
    await api.delete(widgets(api), undefined, { show: ({ kind, apiVersion }) => [kind, apiVersion] });
    await api.get(widgets(api), { show: names });
  },
  'a collection deletion with a field selector deletes one object': async (api) => {
    for (const name of ['a', 'b']) await api.given.create('configmaps', configMap(name));
    await api.delete('configmaps?fieldSelector=metadata.name%3Da', undefined, { show: names });
    await api.get('configmaps', { show: names });
  },
  'in the background, dependents follow their owner': async (api) => {
    await givenFamily(api);
    await api.delete('configmaps/owner', { propagationPolicy: 'Background' });
    await gone(api, 'configmaps/owned');
    await api.get('configmaps', { show: names });
  },
  'in the foreground, the owner waits for its dependents': async (api) => {
    await givenFamily(api, { blockOwnerDeletion: true });
    await api.given.patch('configmaps/owned', 'merge', { metadata: HOLD });
    await api.delete('configmaps/owner', { propagationPolicy: 'Foreground' });
    await api.until('configmaps/owned', ({ object }) => object.metadata.deletionTimestamp !== undefined);
    await api.get('configmaps');
    await api.given.patch('configmaps/owned', 'merge', { metadata: { finalizers: null } });
    await gone(api, 'configmaps/owner');
    await api.get('configmaps', { show: names });
  },
  'in the foreground, dependents that do not block are not waited for': async (api) => {
    await givenFamily(api);
    await api.given.patch('configmaps/owned', 'merge', { metadata: HOLD });
    await api.delete('configmaps/owner?propagationPolicy=Foreground', undefined, {
      show: ({ kind }) => kind,
    });
    await gone(api, 'configmaps/owner');
    await api.get('configmaps', { show: names });
  },
  'orphans stay and lose their owner': async (api) => {
    await givenFamily(api);
    await api.delete('configmaps/owner', { propagationPolicy: 'Orphan' });
    await gone(api, 'configmaps/owner');
    await api.get('configmaps');
  },
  'a dependent with two owners survives the deletion of one': async (api) => {
    const one = await api.given.create('configmaps', configMap('one'));
    const two = await api.given.create('configmaps', configMap('two'));
    const ownerReferences = [one, two].map(({ object: { metadata } }) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      name: metadata.name,
      uid: metadata.uid,
    }));
    await api.given.create('configmaps', configMap('owned', undefined, { ownerReferences }));
    await api.given.delete('configmaps/one');
    await api.until(
      'configmaps/owned',
      ({ object }) => (object.metadata.ownerReferences as readonly unknown[]).length === 1,
    );
    await api.get('configmaps/owned');
  },
  'an owner that never existed counts as gone': async (api) => {
    const uid = '00000000-0000-0000-0000-000000000000';
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'never', uid }];
    await api.given.create('configmaps', configMap('owned', undefined, { ownerReferences }));
    await gone(api, 'configmaps/owned');
    await api.get('configmaps/owned');
  },
  'an owner with the same name and another uid is another owner': async (api) => {
    const uid = '00000000-0000-0000-0000-000000000001';
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid }];
    await api.given.create('configmaps', configMap('owner'));
    await api.given.create('configmaps', configMap('owned', undefined, { ownerReferences }));
    await gone(api, 'configmaps/owned');
    await api.get('configmaps', { show: names });
  },
  'a deleted namespace is emptied, then removed': async (api) => {
    const namespace = `/api/v1/namespaces/${api.id}`;
    await api.given.create('configmaps', configMap('a'));
    await api.given.create(widgets(api), widget('a'));
    await api.delete(namespace);
    await gone(api, namespace);
    await api.get('configmaps', { show: names });
    await api.get(widgets(api), { show: names });
  },
  'objects cannot be created in a namespace that is being deleted': async (api) => {
    const namespace = `/api/v1/namespaces/${api.id}`;
    await api.given.create('configmaps', configMap('a', { n: '1' }, HOLD));
    await api.given.delete(namespace);
    await api.until('configmaps/a', ({ object }) => object.metadata.deletionTimestamp !== undefined);
    await api.create('configmaps', configMap('b'));
    await api.create(widgets(api), widget('b'));
    await api.patch('configmaps/a', 'merge', { data: { n: '2' } }, { show: ({ data }) => data });
    await api.given.patch('configmaps/a', 'merge', { metadata: { finalizers: null } });
    await gone(api, namespace);
  },
  'the namespace default cannot be deleted': async (api) => {
    await api.delete('/api/v1/namespaces/default');
    await api.delete('/api/v1/namespaces/kube-system');
  },
  'namespaces do not support collection deletion': async (api) => {
    await api.delete('/api/v1/namespaces?labelSelector=nobody%3Dhas-this');
  },
  'a cluster-scoped object is deleted': async (api) => {
    await api.given.create(gadgets(), gadget(`${api.id}-a`));
    await api.delete(gadgets(`/${api.id}-a`));
    await api.delete(gadgets(`/${api.id}-a`));
  },
});
