import { group } from '../case.ts';
import { configMap, gadget, gadgets, widget, widgets } from '../fixtures.ts';
import { upToColon } from '../wording.ts';

export const creating = group('creating', {
  'an object is answered with what the server adds': async (api) => {
    await api.create('configmaps', configMap('a', { key: 'value' }));
  },
  'a body without apiVersion and kind is taken for what the path says': async (api) => {
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
  'a name wins over generateName': async (api) => {
    await api.create('configmaps', { metadata: { name: 'a', generateName: 'made-' } });
  },
  'a name or generateName is required': async (api) => {
    await api.create('configmaps', { metadata: {} });
  },
  'a custom resource needs a name, too': async (api) => {
    await api.create(widgets(api), { ...widget(''), metadata: {} });
  },
  'an upper case name is refused': async (api) => {
    await api.create('configmaps', configMap('Upper'));
  },
  'a custom resource of an upper case name is refused': async (api) => {
    await api.create(widgets(api), widget('Upper'));
  },
  'a name of 254 characters is too long': async (api) => {
    await api.create('configmaps', configMap('a'.repeat(254)));
  },
  'the name of a namespace may not hold dots': async (api) => {
    await api.create('/api/v1/namespaces', { metadata: { name: `${api.id}.dotted` } });
  },
  'a name that generateName makes is judged like any other': {
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
  'a namespace in the body has to be that of the path': async (api) => {
    await api.create('configmaps', configMap('a', undefined, { namespace: 'default' }));
  },
  'a custom resource that names another namespace is refused': async (api) => {
    await api.create(widgets(api), widget('a', {}, { namespace: 'default' }));
  },
  'a namespace is dropped where there are none': async (api) => {
    await api.create(gadgets(), gadget(`${api.id}-a`, {}, { namespace: 'default' }));
  },
  'a resourceVersion may not be set': async (api) => {
    await api.create('configmaps', configMap('a', undefined, { resourceVersion: '7' }));
  },
  'what only the server sets is taken out': async (api) => {
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
  'a kind other than that of the path is refused': {
    run: async (api) => {
      await api.create('configmaps', { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a' } });
    },
    normalise: upToColon,
  },
  'a version other than that of the path is refused': {
    run: async (api) => {
      await api.create('configmaps', { apiVersion: 'v2', kind: 'ConfigMap', metadata: { name: 'a' } });
    },
    normalise: upToColon,
  },
  'a custom resource of another kind than the path is refused': async (api) => {
    await api.create(widgets(api), { ...widget('a'), kind: 'Gadget' });
  },
  'a custom resource of another version than the path is refused': async (api) => {
    await api.create(widgets(api), { ...widget('a'), apiVersion: 'conformance.example.com/v1beta1' });
  },
  'a custom resource needs apiVersion and kind': {
    run: async (api) => {
      const { metadata, spec } = widget('a');
      await api.create(widgets(api), { metadata, spec });
    },
    normalise: upToColon,
  },
  'a body that is no JSON is refused': {
    run: async (api) => {
      await api.create('configmaps', '{"metadata": ');
    },
    normalise: upToColon,
  },
  'a custom resource whose body is no JSON is refused': {
    run: async (api) => {
      await api.create(widgets(api), '{"metadata": ');
    },
    normalise: upToColon,
  },
  'an empty body is refused': {
    run: async (api) => {
      await api.create('configmaps', '');
    },
    normalise: upToColon,
  },
  'a body that is nested too deep is refused': {
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
  'empty metadata of a custom resource is left out, and the rest stays': async (api) => {
    const metadata = { labels: {}, finalizers: [] };
    await api.create(widgets(api), widget('a', { steps: [], notes: {} }, metadata));
  },
  'a name is not free while its object is being deleted': async (api) => {
    await api.given.create('configmaps', configMap('a', undefined, { finalizers: ['example.com/hold'] }));
    await api.given.delete('configmaps/a');
    await api.create('configmaps', configMap('a'));
  },
  'nothing in a namespace can be created without one': async (api) => {
    await api.create('/api/v1/configmaps', configMap('a'));
    await api.create('/apis/conformance.example.com/v1/widgets', widget('a'));
  },
  'a field of the wrong type is refused': {
    run: async (api) => {
      await api.create('configmaps', { metadata: { name: 'a' }, data: 'text' });
    },
    normalise: upToColon,
  },
  'YAML is taken as well': async (api) => {
    await api.create('configmaps', 'metadata:\n  name: a\ndata:\n  key: value\n', {
      headers: { 'content-type': 'application/yaml' },
    });
  },
  'a media type nobody knows is refused': async (api) => {
    await api.create('configmaps', configMap('a'), { headers: { 'content-type': 'text/csv' } });
  },
  'nothing can be created at the path of an object': async (api) => {
    await api.create('configmaps/a', configMap('a'));
  },
  'ownerReferences are judged': async (api) => {
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
  'a finalizer of a built-in kind has to be known or qualified': async (api) => {
    await api.create('configmaps', configMap('a', undefined, { finalizers: ['unqualified'] }));
  },
});
