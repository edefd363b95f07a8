/** What kubectl and Gatehouse do with objects of any kind. */
import type { Api, Loose } from '../api.ts';
import { configMap, group, widget, widgets } from '../fixtures.ts';

const HOLD = { finalizers: ['example.com/hold'] };

const spec = ({ spec }: Loose) => spec;
const data = ({ data }: Loose) => data;
const names = ({ items }: Loose) => (items as readonly Loose[]).map(({ metadata }) => metadata.name);

const by = (manager: string, more = '') => `?fieldManager=${manager}${more}`;

/** The managers of fields. `.` keys and `subresource` differ between releases. */
const owners = ({ metadata }: Loose) =>
  (metadata.managedFields as readonly Loose[]).map(({ manager, operation, fieldsV1 }) => ({
    manager,
    operation,
    fieldsV1,
  }));

const service = (...ports: readonly object[]) => ({
  metadata: { name: 'a' },
  spec: { selector: { app: 'a' }, ports },
});

async function givenFamily(api: Api, more: object = {}): Promise<void> {
  const owner = await api.given.create('configmaps', configMap('owner'));
  const { name, uid } = owner.object.metadata;
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, ...more }];
  await api.given.create('configmaps', configMap('owned', undefined, { ownerReferences }));
}

const gone = (api: Api, path: string) => api.until(path, ({ status }) => status === 404);

export const creating = group('creating', {
  'the answer includes fields that the server sets': async (api) => {
    await api.create('configmaps', configMap('a', { key: 'value' }));
  },
  'a name that is taken is a conflict': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.create('configmaps', configMap('a'));
  },
  'a wrong label and a wrong annotation are two causes': async (api) => {
    const metadata = { labels: { good: 'bad value' }, annotations: { 'also bad': '' } };
    await api.create('configmaps', configMap('a', undefined, metadata));
  },
  'a namespace that does not exist is not found': async (api) => {
    await api.create(`/api/v1/namespaces/${api.id}-missing/configmaps`, configMap('a'));
  },
  'fields that only the server sets are dropped': async (api) => {
    const forged = {
      uid: '00000000-0000-0000-0000-000000000000',
      creationTimestamp: '2001-01-01T00:00:00Z',
      generation: 7,
      deletionTimestamp: '2001-01-01T00:00:00Z',
      deletionGracePeriodSeconds: 7,
      selfLink: '/somewhere',
    };
    await api.create(widgets(api), widget('a', {}, forged));
  },
  'a custom resource of another kind than the path is rejected': async (api) => {
    await api.create(widgets(api), { ...widget('a'), kind: 'Gadget' });
  },
  'empty metadata fields of a custom resource are dropped, and other empty fields stay': async (api) => {
    const metadata = { labels: {}, finalizers: [] };
    await api.create(widgets(api), widget('a', { steps: [], notes: {} }, metadata));
  },
});

export const updating = group('updating', {
  'an update with an old version is a conflict': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.update('configmaps/a', configMap('a', { n: '2' }));
    await api.update('configmaps/a', { ...object, data: { n: '3' } });
  },
  'an update of a custom resource needs a version': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.update(widgets(api, '/a'), widget('a', { size: 2 }));
  },
  'an update that changes nothing keeps the version': async (api) => {
    const { object } = await api.create(widgets(api), widget('a', { size: 1 }));
    await api.update(widgets(api, '/a'), object);
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
});

export const patching = group('patching', {
  'a JSON patch is applied in order': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1', two: '2' }));
    await api.patch('configmaps/a', 'json', [
      { op: 'test', path: '/data/one', value: '1' },
      { op: 'replace', path: '/data/one', value: '11' },
      { op: 'copy', from: '/data/one', path: '/data/three' },
      { op: 'move', from: '/data/two', path: '/data/four' },
      { op: 'add', path: '/metadata/labels', value: {} },
      { op: 'add', path: '/metadata/labels/example.com~1a', value: 'b' },
    ]);
  },
  'a merge patch sets, adds and removes': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1', two: '2' }, { labels: { a: 'b' } }));
    await api.patch('configmaps/a', 'merge', {
      metadata: { labels: null },
      data: { one: '11', two: null, three: '3', four: null },
    });
  },
  'a merge patch with an outdated version is a conflict': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a'));
    const { resourceVersion } = object.metadata;
    await api.given.patch('configmaps/a', 'merge', { data: { n: '1' } });
    await api.patch('configmaps/a', 'merge', { metadata: { resourceVersion }, data: { n: '2' } });
  },
  'a strategic merge patch merges Service ports by their number': async (api) => {
    await api.given.create('services', service({ name: 'one', port: 1 }, { name: 'two', port: 2 }));
    const ports = [
      { port: 2, targetPort: 22 },
      { name: 'three', port: 3 },
    ];
    await api.patch('services/a', 'strategic', { spec: { ports } }, { show: spec });
  },
});

export const applying = group('applying', {
  'a value of another manager is a conflict': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.apply(`configmaps/a${by('two')}`, configMap('a', { key: 'changed' }));
  },
  'force takes over fields': {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
      await api.apply(`configmaps/a${by('two', '&force=true')}`, configMap('a', { key: 'changed' }), {
        show: (object) => [data(object), owners(object)],
      });
    },
  },
  'fields that a manager omits are removed': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { other: 'x' }), { show: data });
  },
  'list items have their own managers': async (api) => {
    const ports = (...items: readonly object[]) => widget('a', { ports: items });
    await api.given.apply(widgets(api, `/a${by('one')}`), ports({ name: 'http', port: 80 }));
    await api.apply(widgets(api, `/a${by('two')}`), ports({ name: 'https', port: 443 }), { show: spec });
    await api.apply(widgets(api, `/a${by('one')}`), ports(), { show: spec });
  },
});

export const deleting = group('deleting', {
  'a deletion with another uid is a conflict': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    const uid = '00000000-0000-0000-0000-000000000000';
    await api.delete('configmaps/a', { preconditions: { uid } });
  },
  'removing the last finalizer removes the object': async (api) => {
    await api.given.create('configmaps', configMap('a', undefined, HOLD));
    await api.given.delete('configmaps/a');
    await api.patch('configmaps/a', 'merge', { metadata: { finalizers: null } });
    await api.get('configmaps/a');
  },
  'new finalizers of a custom resource that is being deleted are refused': async (api) => {
    await api.given.create(widgets(api), widget('a', {}, HOLD));
    await api.given.delete(widgets(api, '/a'));
    const finalizers = ['example.com/hold', 'example.com/more'];
    await api.patch(widgets(api, '/a'), 'merge', { metadata: { finalizers } });
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
  'orphans stay and lose their owner': async (api) => {
    await givenFamily(api);
    await api.delete('configmaps/owner', { propagationPolicy: 'Orphan' });
    await gone(api, 'configmaps/owner');
    await api.get('configmaps');
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
});
