import { group } from '../case.ts';
import { configMap, gadget, gadgets, widget, widgets } from '../fixtures.ts';
import { upToColon } from '../wording.ts';

export const creating = group('creating', {
  'the answer includes fields that the server sets': async (api) => {
    await api.create('configmaps', configMap('a', { key: 'value' }));
  },
  'a body without apiVersion and kind gets them from the path': async (api) => {
    await api.create('configmaps', { metadata: { name: 'a' } });
  },
  'a name that is taken is a conflict': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.create('configmaps', configMap('a'));
  },
  'a custom resource whose name is taken is a conflict': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    await api.create(widgets(api), widget('a'));
  },
  'generateName makes a name': async (api) => {
    await api.create('configmaps', { metadata: { generateName: 'made-' } });
  },
  'generateName of a custom resource makes a name': async (api) => {
    const { metadata, ...rest } = widget('');
    await api.create(widgets(api), { ...rest, metadata: { ...metadata, generateName: 'made-' } });
  },
  'name takes precedence over generateName': async (api) => {
    await api.create('configmaps', { metadata: { name: 'a', generateName: 'made-' } });
  },
  'a name or generateName is required': async (api) => {
    await api.create('configmaps', { metadata: {} });
  },
  'a custom resource needs a name': async (api) => {
    await api.create(widgets(api), { ...widget(''), metadata: {} });
  },
  'an upper case name is rejected': async (api) => {
    await api.create('configmaps', configMap('Upper'));
  },
  'a custom resource with an upper case name is rejected': async (api) => {
    await api.create(widgets(api), widget('Upper'));
  },
  'a name of 254 characters is too long': async (api) => {
    await api.create('configmaps', configMap('a'.repeat(254)));
  },
  'the name of a namespace may not hold dots': async (api) => {
    await api.create('/api/v1/namespaces', { metadata: { name: `${api.id}.dotted` } });
  },
  'a generated name is validated': {
    run: async (api) => {
      await api.create('configmaps', { metadata: { generateName: 'Upper-' } });
    },
    // The message names the generated name, and in some releases also generateName.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status : exchange)),
  },
  'a wrong label and a wrong annotation are two causes': async (api) => {
    const metadata = { labels: { good: 'bad value' }, annotations: { 'also bad': '' } };
    await api.create('configmaps', configMap('a', undefined, metadata));
  },
  'a namespace that does not exist is not found': async (api) => {
    await api.create(`/api/v1/namespaces/${api.id}-missing/configmaps`, configMap('a'));
  },
  'a custom resource in a namespace that does not exist is not found': async (api) => {
    await api.create(widgets({ ...api, id: `${api.id}-missing` }), widget('a'));
  },
  'the namespace in the body must match the path': async (api) => {
    await api.create('configmaps', configMap('a', undefined, { namespace: 'default' }));
  },
  'a custom resource that names another namespace is rejected': async (api) => {
    await api.create(widgets(api), widget('a', {}, { namespace: 'default' }));
  },
  'a namespace in a cluster-scoped object is dropped': async (api) => {
    await api.create(gadgets(), gadget(`${api.id}-a`, {}, { namespace: 'default' }));
  },
  'a resourceVersion may not be set': async (api) => {
    await api.create('configmaps', configMap('a', undefined, { resourceVersion: '7' }));
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
  'a kind other than that of the path is rejected': {
    run: async (api) => {
      await api.create('configmaps', { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a' } });
    },
    normalise: upToColon,
  },
  'a version other than that of the path is rejected': {
    run: async (api) => {
      await api.create('configmaps', { apiVersion: 'v2', kind: 'ConfigMap', metadata: { name: 'a' } });
    },
    normalise: upToColon,
  },
  'a custom resource of another kind than the path is rejected': async (api) => {
    await api.create(widgets(api), { ...widget('a'), kind: 'Gadget' });
  },
  'a custom resource of another version than the path is rejected': async (api) => {
    await api.create(widgets(api), { ...widget('a'), apiVersion: 'conformance.example.com/v1beta1' });
  },
  'a custom resource needs apiVersion and kind': {
    run: async (api) => {
      const { metadata, spec } = widget('a');
      await api.create(widgets(api), { metadata, spec });
    },
    normalise: upToColon,
  },
  'a body that is not JSON is rejected': {
    run: async (api) => {
      await api.create('configmaps', '{"metadata": ');
    },
    normalise: upToColon,
  },
  'a custom resource whose body is not JSON is rejected': {
    run: async (api) => {
      await api.create(widgets(api), '{"metadata": ');
    },
    normalise: upToColon,
  },
  'an empty body is rejected': {
    run: async (api) => {
      await api.create('configmaps', '');
    },
    normalise: upToColon,
  },
  'a body that is nested too deeply is rejected': {
    run: async (api) => {
      await api.create(
        'configmaps',
        `{"metadata":{"name":"a"},"data":${'['.repeat(10_001)}${']'.repeat(10_001)}}`,
      );
    },
    normalise: upToColon,
  },
  'empty lists and maps of a built-in kind are left out': async (api) => {
    await api.create('configmaps', configMap('a', {}, { labels: {}, finalizers: [] }));
    await api.create('services', {
      metadata: { name: 'a', annotations: null },
      spec: { selector: {}, clusterIP: 'None', externalIPs: [], ports: [] },
    });
  },
  'empty metadata fields of a custom resource are dropped, and other empty fields stay': async (api) => {
    const metadata = { labels: {}, finalizers: [] };
    await api.create(widgets(api), widget('a', { steps: [], notes: {} }, metadata));
  },
  'a name is taken while its object is being deleted': async (api) => {
    await api.given.create('configmaps', configMap('a', undefined, { finalizers: ['example.com/hold'] }));
    await api.given.delete('configmaps/a');
    await api.create('configmaps', configMap('a'));
  },
  'a namespaced object cannot be created without a namespace': async (api) => {
    await api.create('/api/v1/configmaps', configMap('a'));
    await api.create('/apis/conformance.example.com/v1/widgets', widget('a'));
  },
  'a field of the wrong type is rejected': {
    run: async (api) => {
      await api.create('configmaps', { metadata: { name: 'a' }, data: 'text' });
    },
    normalise: upToColon,
  },
  'YAML is accepted as well': async (api) => {
    await api.create('configmaps', 'metadata:\n  name: a\ndata:\n  key: value\n', {
      headers: { 'content-type': 'application/yaml' },
    });
  },
  'an unknown media type is rejected': async (api) => {
    await api.create('configmaps', configMap('a'), { headers: { 'content-type': 'text/csv' } });
  },
  'nothing can be created at the path of an object': async (api) => {
    await api.create('configmaps/a', configMap('a'));
  },
  'ownerReferences are validated': async (api) => {
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: '', uid: '' }];
    await api.create('configmaps', configMap('a', undefined, { ownerReferences }));
  },
  'only one owner may be the controller': {
    run: async (api) => {
      const owner = (name: string) => ({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        name,
        uid: name,
        controller: true,
      });
      const ownerReferences = [owner('one'), owner('two')];
      await api.create('configmaps', configMap('a', undefined, { ownerReferences }));
    },
    // Later releases print `ConfigMap/one`.
    normalise: (transcript) => JSON.parse(JSON.stringify(transcript).replaceAll('ConfigMap/', '')) as unknown,
  },
  'an Event cannot be an owner': async (api) => {
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Event', name: 'a', uid: 'a' }];
    await api.create('configmaps', configMap('a', undefined, { ownerReferences }));
  },
  'finalizers of built-in kinds must be known or qualified': async (api) => {
    await api.create('configmaps', configMap('a', undefined, { finalizers: ['unqualified'] }));
  },
});
