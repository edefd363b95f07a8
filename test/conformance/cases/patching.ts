import type { Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';
import { upToColon, without } from '../wording.ts';

const service = (ports: readonly object[]) => ({
  metadata: { name: 'a' },
  spec: { selector: { app: 'a' }, ports },
});
const spec = ({ spec }: Loose) => spec;

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
  'a JSON patch changes lists of a custom resource': async (api) => {
    await api.given.create(widgets(api), widget('a', { steps: ['one', 'three'] }));
    await api.patch(widgets(api, '/a'), 'json', [
      { op: 'add', path: '/spec/steps/1', value: 'two' },
      { op: 'add', path: '/spec/steps/-', value: 'four' },
      { op: 'remove', path: '/spec/steps/0' },
    ]);
  },
  'a JSON patch with a failing test is rejected': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a', { one: '1' }));
      await api.patch('configmaps/a', 'json', [{ op: 'test', path: '/data/one', value: '2' }]);
    },
    normalise: upToColon, // the message comes from the library that applies the patch
  },
  'a JSON patch that removes a missing field is rejected': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a', { one: '1' }));
      await api.patch('configmaps/a', 'json', [{ op: 'remove', path: '/data/two' }]);
    },
    normalise: upToColon,
  },
  'a JSON patch that replaces a missing field adds it': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1' }));
    await api.patch('configmaps/a', 'json', [{ op: 'replace', path: '/data/two', value: '2' }]);
  },
  'a JSON patch that adds below a missing field is rejected': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      await api.patch('configmaps/a', 'json', [{ op: 'add', path: '/data/one', value: '1' }]);
    },
    normalise: upToColon,
  },
  'a JSON patch is a list of operations': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      await api.patch('configmaps/a', 'json', { op: 'add' });
    },
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status : exchange)),
  },
  'a JSON patch with an invalid result is rejected': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.patch('configmaps/a', 'json', [{ op: 'add', path: '/data', value: { 'bad key': '1' } }]);
  },
  'a merge patch sets, adds and removes': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1', two: '2' }, { labels: { a: 'b' } }));
    await api.patch('configmaps/a', 'merge', {
      metadata: { labels: null },
      data: { one: '11', two: null, three: '3', four: null },
    });
  },
  'a merge patch replaces lists': async (api) => {
    await api.given.create(widgets(api), widget('a', { steps: ['one', 'two'], notes: { a: '1' } }));
    await api.patch(widgets(api, '/a'), 'merge', { spec: { steps: ['three'], notes: { b: '2' } } });
  },
  'a merge patch of Service ports replaces all of them': async (api) => {
    await api.given.create(
      'services',
      service([
        { name: 'one', port: 1 },
        { name: 'two', port: 2 },
      ]),
    );
    await api.patch('services/a', 'merge', { spec: { ports: [{ name: 'three', port: 3 }] } }, { show: spec });
  },
  'a merge patch with an outdated version is a conflict': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a'));
    const { resourceVersion } = object.metadata;
    await api.given.patch('configmaps/a', 'merge', { data: { n: '1' } });
    await api.patch('configmaps/a', 'merge', { metadata: { resourceVersion }, data: { n: '2' } });
  },
  'a merge patch with the current version succeeds': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a'));
    const { resourceVersion } = object.metadata;
    await api.patch('configmaps/a', 'merge', { metadata: { resourceVersion }, data: { n: '2' } });
  },
  'a merge patch with another uid is a conflict': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    const uid = '00000000-0000-0000-0000-000000000000';
    await api.patch('configmaps/a', 'merge', { metadata: { uid } });
  },
  'a patch that changes nothing keeps the version': async (api) => {
    await api.create('configmaps', configMap('a', { n: '1' }));
    await api.patch('configmaps/a', 'merge', { data: { n: '1' } });
  },
  'a patch cannot rename': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.patch('configmaps/a', 'merge', { metadata: { name: 'b' } });
  },
  'a patch cannot move to another namespace': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.patch('configmaps/a', 'merge', { metadata: { namespace: 'default' } });
  },
  'a patch of a missing object is not found': async (api) => {
    await api.patch('configmaps/missing', 'merge', {});
    await api.patch(widgets(api, '/missing'), 'json', []);
  },
  'a patch that is no JSON is rejected': {
    since: '1.37', // validateAndTranscodePatch; before that, each type of patch has other words
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      for (const type of ['json', 'merge', 'strategic'] as const)
        await api.patch('configmaps/a', type, '{"data":');
    },
  },
  'a patch that results in a field of the wrong type is rejected': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      await api.patch('configmaps/a', 'merge', { data: 'text' });
      await api.patch('configmaps/a', 'strategic', { metadata: { labels: 'text' } });
      await api.patch('configmaps/a', 'json', [{ op: 'add', path: '/data', value: { a: 1 } }]);
    },
    normalise: upToColon,
  },
  'a patch that changes the kind is rejected': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      await api.patch('configmaps/a', 'merge', { kind: 'Secret' });
      await api.given.create(widgets(api), widget('a'));
      await api.patch(widgets(api, '/a'), 'merge', { kind: 'Gadget' });
      await api.patch(widgets(api, '/a'), 'merge', { apiVersion: 'conformance.example.com/v1beta1' });
    },
    normalise: upToColon,
  },
  'a patch with unknown fields is refused when asked to be strict': {
    run: async (api) => {
      await api.given.create(widgets(api), widget('a', { size: 1 }));
      await api.patch(widgets(api, '/a?fieldValidation=Strict'), 'merge', { spec: { unknown: 1 } });
    },
    normalise: without(/\{.*\}/s), // the object, whose keys have no order
  },
  'a strategic merge patch merges Service ports by their number': async (api) => {
    await api.given.create(
      'services',
      service([
        { name: 'one', port: 1 },
        { name: 'two', port: 2 },
      ]),
    );
    const ports = [
      { port: 2, targetPort: 22 },
      { name: 'three', port: 3 },
    ];
    await api.patch('services/a', 'strategic', { spec: { ports } }, { show: spec });
  },
  'a strategic merge patch deletes one port': async (api) => {
    await api.given.create(
      'services',
      service([
        { name: 'one', port: 1 },
        { name: 'two', port: 2 },
      ]),
    );
    await api.patch(
      'services/a',
      'strategic',
      { spec: { ports: [{ port: 1, $patch: 'delete' }] } },
      { show: spec },
    );
  },
  'a strategic merge patch replaces all ports when told to': async (api) => {
    await api.given.create(
      'services',
      service([
        { name: 'one', port: 1 },
        { name: 'two', port: 2 },
      ]),
    );
    const ports = [{ $patch: 'replace' }, { name: 'three', port: 3 }];
    await api.patch('services/a', 'strategic', { spec: { ports } }, { show: spec });
  },
  'a strategic merge patch adds to existing finalizers': async (api) => {
    const finalizers = ['example.com/one'];
    await api.given.create('configmaps', configMap('a', undefined, { finalizers }));
    await api.patch('configmaps/a', 'strategic', { metadata: { finalizers: ['example.com/two'] } });
    await api.patch('configmaps/a', 'strategic', {
      metadata: { '$deleteFromPrimitiveList/finalizers': ['example.com/one'] },
    });
  },
  'a strategic merge patch merges ownerReferences by uid': async (api) => {
    const owner = (name: string) => ({
      apiVersion: 'example.com/v1',
      kind: 'Odd',
      name,
      uid: `uid-of-${name}`,
    });
    await api.given.create('configmaps', configMap('a', undefined, { ownerReferences: [owner('one')] }));
    await api.patch('configmaps/a', 'strategic', {
      metadata: { ownerReferences: [{ ...owner('one'), name: 'renamed' }] },
    });
  },
  'a strategic merge patch replaces a map when told to': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1' }));
    await api.patch('configmaps/a', 'strategic', { data: { $patch: 'replace', two: '2' } });
  },
  'a strategic merge patch keeps only the keys that it retains': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1', two: '2' }));
    await api.patch('configmaps/a', 'strategic', { data: { $retainKeys: ['two'], two: '22' } });
  },
  'a strategic merge patch of a custom resource is not supported': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    await api.patch(widgets(api, '/a'), 'strategic', { spec: { size: 1 } });
  },
  'a patch in plain JSON is not supported': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.patch('configmaps/a', 'merge', {}, { headers: { 'content-type': 'application/json' } });
  },
  'a patch of a custom resource is validated by its schema': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a'), 'merge', { spec: { size: 101 } });
  },
  'a patch of a custom resource ignores its status': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 }, status: { phase: 'Forged' } });
  },
  'a patch of the status ignores the spec': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a/status'), 'merge', { spec: { size: 2 }, status: { phase: 'Ready' } });
  },
});
