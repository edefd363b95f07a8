import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';

const as = (kind: string) => ({ headers: { accept: `application/json;as=${kind};v=v1;g=meta.k8s.io` } });
const TABLE = as('Table');

export const tables = group('tables and metadata', {
  'ConfigMaps have a number of keys': async (api) => {
    await api.given.create('configmaps', configMap('a', { one: '1', two: '2' }));
    await api.get('configmaps', TABLE);
  },
  'one object is a Table of one row': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.get('configmaps/a', TABLE);
  },
  'Secrets have a type': async (api) => {
    await api.given.create('secrets', { metadata: { name: 'a' }, stringData: { one: '1' } });
    await api.get('secrets?includeObject=None', TABLE);
  },
  'Namespaces have a status': async (api) => {
    await api.get(`/api/v1/namespaces/${api.id}?includeObject=None`, TABLE);
  },
  'Services have ports': async (api) => {
    const ports = [
      { name: 'a', port: 80 },
      { name: 'b', port: 53, protocol: 'UDP' },
    ];
    await api.given.create('services', { metadata: { name: 'a' }, spec: { selector: { app: 'a' }, ports } });
    await api.given.create('services', {
      metadata: { name: 'b' },
      spec: { type: 'ExternalName', externalName: 'db.example.com' },
    });
    await api.get('services?includeObject=None', TABLE);
  },
  'custom resources have the columns of their CRD': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    await api.given.create(widgets(api), widget('b'));
    await api.get(widgets(api), TABLE);
  },
  'rows contain metadata by default': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    for (const include of ['None', 'Metadata', 'Object'])
      await api.get(widgets(api, `?includeObject=${include}`), {
        ...TABLE,
        show: ({ rows }) => (rows as readonly { readonly object: unknown }[]).map(({ object }) => object),
      });
  },
  'includeObject has three values': async (api) => {
    await api.get('configmaps?includeObject=Everything', TABLE);
  },
  'an empty list is an empty Table': async (api) => {
    await api.get('configmaps', TABLE);
  },
  'a Table comes in chunks': async (api) => {
    for (const name of ['a', 'b']) await api.given.create('configmaps', configMap(name));
    await api.get('configmaps?limit=1&includeObject=None', {
      ...TABLE,
      show: ({ kind, metadata, rows }) => ({ kind, metadata, rows }),
    });
  },
  'a creation may answer with a Table': async (api) => {
    await api.create('configmaps?includeObject=None', configMap('a', { n: '1' }), TABLE);
  },
  'an error is always a Status': async (api) => {
    await api.get('configmaps/missing', TABLE);
  },
  'a list of metadata': async (api) => {
    await api.given.create('configmaps', configMap('a', { n: '1' }, { labels: { a: 'b' } }));
    await api.get('configmaps', as('PartialObjectMetadataList'));
  },
  'the metadata of one object': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.get(widgets(api, '/a'), as('PartialObjectMetadata'));
  },
  'the next media type is used if the first is unknown': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    const accept = 'application/json;as=Table;v=v9;g=meta.k8s.io, application/json';
    await api.get('configmaps', { headers: { accept }, show: ({ kind }) => kind });
  },
});
