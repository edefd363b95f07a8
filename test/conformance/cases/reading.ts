import type { Api, Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';
import { upToColon } from '../wording.ts';

/** Four ConfigMaps for the selectors. */
async function givenFour(api: Api): Promise<void> {
  const labels: readonly Record<string, string>[] = [
    { tier: 'web', zone: 'a' },
    { tier: 'web', zone: 'b' },
    { tier: 'db' },
    {},
  ];
  for (const [index, some] of labels.entries())
    await api.given.create('configmaps', configMap(`cm-${index}`, { n: String(index) }, { labels: some }));
}

const names = ({ items }: Loose) => (items as readonly Loose[]).map(({ metadata }) => metadata.name);

const listMeta = ({ kind, metadata }: Loose) => ({ kind, metadata });

/** The names of the objects that a label selector selects. */
const selects = (selector: string) => async (api: Api) => {
  await givenFour(api);
  await api.get(`configmaps?labelSelector=${encodeURIComponent(selector)}`, { show: names });
};

export const reading = group('reading', {
  'an object is read as it was written': async (api) => {
    await api.given.create('configmaps', configMap('a', { key: 'value' }));
    await api.get('configmaps/a');
  },
  'a missing object is not found': async (api) => {
    await api.get('configmaps/missing');
  },
  'a missing custom resource is not found': async (api) => {
    await api.get(widgets(api, '/missing'));
  },
  'an unknown resource is not found': async (api) => {
    await api.get('nothings/a');
    await api.get('/apis/nowhere.example.com/v1/things');
  },
  'a list contains the objects of its namespace, ordered by name': async (api) => {
    await api.given.create('configmaps', configMap('b'));
    await api.given.create('configmaps', configMap('a'));
    await api.get('configmaps');
  },
  'items of a list of custom resources contain their kind': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    await api.get(widgets(api));
  },
  'a list of an empty namespace is empty': async (api) => {
    await api.get('configmaps');
    await api.get(widgets(api));
  },
  'a list of a namespace that does not exist is empty': async (api) => {
    await api.get(`/api/v1/namespaces/${api.id}-missing/configmaps`);
  },
  'a list across namespaces is ordered by namespace and name': async (api) => {
    const other = `${api.id}-other`;
    await api.given.create('/api/v1/namespaces', { metadata: { name: other } });
    const labels = { across: api.id };
    await api.given.create(`/api/v1/namespaces/${other}/configmaps`, configMap('a', {}, { labels }));
    await api.given.create('configmaps', configMap('b', {}, { labels }));
    await api.given.create('configmaps', configMap('a', {}, { labels }));
    await api.get(`/api/v1/configmaps?labelSelector=across%3D${api.id}`);
  },
  'a custom resource is readable in every served version': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 3 }));
    await api.get(widgets(api, '/a', 'v1beta1'));
  },
  'the chunks of a list are one snapshot': async (api) => {
    await givenFour(api);
    const first = await api.get('configmaps?limit=2');
    await api.given.create('configmaps', configMap('cm-9'));
    await api.get(`configmaps?limit=2&continue=${encodeURIComponent(first.object.metadata.continue)}`);
  },
  'a complete chunk has no continue token': async (api) => {
    await givenFour(api);
    await api.get('configmaps?limit=4', { show: listMeta });
  },
  'a chunk with a selector has no remaining count': async (api) => {
    await givenFour(api);
    await api.get('configmaps?limit=1&labelSelector=tier%3Dweb', { show: listMeta });
  },
  'custom resources can be listed in chunks': async (api) => {
    for (const name of ['a', 'b', 'c']) await api.given.create(widgets(api), widget(name));
    const first = await api.get(widgets(api, '?limit=2'), { show: names });
    const next = encodeURIComponent(first.object.metadata.continue);
    await api.get(widgets(api, `?limit=2&continue=${next}`), { show: names });
  },
  'an invalid continue token is rejected': {
    run: async (api) => {
      await api.get('configmaps?limit=2&continue=nonsense');
    },
    normalise: upToColon, // the rest is the message of a base64 decoder
  },
  'continue and resourceVersion exclude each other': async (api) => {
    await givenFour(api);
    const first = await api.get('configmaps?limit=2', { show: names });
    const next = encodeURIComponent(first.object.metadata.continue);
    await api.get(`configmaps?limit=2&resourceVersion=1&continue=${next}`);
  },
  'a label equals': selects('tier=web'),
  'a label equals, with two signs': selects('tier==web'),
  'a label differs or is absent': selects('tier!=web'),
  'a label is in a set': selects('zone in (a,c)'),
  'a label is not in a set, or is absent': selects('zone notin (a)'),
  'a label exists': selects('zone'),
  'a label does not exist': selects('!tier'),
  'all requirements must hold': selects('tier=web,zone!=a'),
  'a label selector that does not parse is rejected': {
    run: async (api) => {
      await api.get('configmaps?labelSelector=a%3D%3D%3D');
    },
    normalise: upToColon, // the message changed several times
  },
  'a field selector selects by name': async (api) => {
    await givenFour(api);
    await api.get('configmaps?fieldSelector=metadata.name%3Dcm-1', { show: names });
    await api.get('configmaps?fieldSelector=metadata.name!%3Dcm-1', { show: names });
  },
  'a field selector selects by namespace': async (api) => {
    await givenFour(api);
    await api.get(`configmaps?fieldSelector=metadata.namespace%3D${api.id}`, { show: names });
    await api.get('configmaps?fieldSelector=metadata.namespace%3Dother', { show: names });
  },
  'a field selector selects Secrets by type': async (api) => {
    await api.given.create('secrets', { metadata: { name: 'a' }, type: 'example.com/a' });
    await api.given.create('secrets', { metadata: { name: 'b' } });
    await api.get('secrets?fieldSelector=type%3DOpaque', { show: names });
  },
  'a field selector selects a custom resource by name': async (api) => {
    for (const name of ['a', 'b']) await api.given.create(widgets(api), widget(name));
    await api.get(widgets(api, '?fieldSelector=metadata.name%3Db'), { show: names });
  },
  'an unsupported field selector is rejected': async (api) => {
    await api.get('configmaps?fieldSelector=data.key%3Da');
    await api.get(widgets(api, '?fieldSelector=spec.size%3D1'));
  },
  'an exact version is a snapshot': async (api) => {
    const made = await api.given.create('configmaps', configMap('a'));
    await api.given.create('configmaps', configMap('b'));
    const version = made.object.metadata.resourceVersion;
    await api.get(`configmaps?resourceVersionMatch=Exact&resourceVersion=${version}`, { show: names });
  },
  'a list not older than a version contains at least that state': async (api) => {
    const made = await api.given.create('configmaps', configMap('a', { n: '1' }));
    const version = made.object.metadata.resourceVersion;
    await api.get(`configmaps?resourceVersionMatch=NotOlderThan&resourceVersion=${version}`, { show: names });
    await api.get(`configmaps/a?resourceVersion=${version}`, { show: ({ data }) => data });
  },
  'a future version is a timeout': async (api) => {
    await api.get('configmaps?resourceVersion=999999999');
  },
  'resourceVersionMatch needs a resourceVersion': async (api) => {
    await api.get('configmaps?resourceVersionMatch=Exact');
  },
  'resourceVersionMatch has two values': async (api) => {
    await api.get('configmaps?resourceVersionMatch=Nearly&resourceVersion=1');
    await api.get('configmaps?resourceVersionMatch=Exact&resourceVersion=0');
  },
});
