import type { Api } from '../api.ts';
import { group } from '../case.ts';
import { configMap, gadget, gadgets, widget, widgets } from '../fixtures.ts';

const TABLE = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };
const METADATA = { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' };

/** The version of an empty list, from which a watch sees every event. */
async function versionNow(api: Api, path: string): Promise<string> {
  return (await api.given.get(path)).object.metadata.resourceVersion;
}

export const watching = group('watching', {
  'from the version of a list, every change is an event': async (api) => {
    const watch = await api.watch(`configmaps?resourceVersion=${await versionNow(api, 'configmaps')}`);
    await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.patch('configmaps/a', 'merge', { data: { n: '2' } });
    await api.given.delete('configmaps/a');
    await watch.events(3);
  },
  'custom resources can be watched': async (api) => {
    const watch = await api.watch(widgets(api, `?resourceVersion=${await versionNow(api, widgets(api))}`));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
    await api.given.delete(widgets(api, '/a'));
    await watch.events(3);
  },
  'custom resources are watchable in every served version': async (api) => {
    const version = await versionNow(api, widgets(api));
    const watch = await api.watch(widgets(api, `?resourceVersion=${version}`, 'v1beta1'));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await watch.events(1);
  },
  'without a version, existing objects come first': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    const watch = await api.watch('configmaps');
    await api.given.create('configmaps', configMap('b'));
    await watch.events(2);
  },
  'from version 0, existing objects come first': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    const watch = await api.watch(widgets(api, '?resourceVersion=0'));
    await api.given.create(widgets(api), widget('b'));
    await watch.events(2);
  },
  'from the version of an object, later events follow': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.patch('configmaps/a', 'merge', { data: { n: '2' } });
    await api.given.create('configmaps', configMap('b'));
    const watch = await api.watch(`configmaps?resourceVersion=${object.metadata.resourceVersion}`);
    await watch.events(2);
  },
  'an update without changes causes no event': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a', { n: '1' }));
    const watch = await api.watch(`configmaps?resourceVersion=${object.metadata.resourceVersion}`);
    await api.given.update('configmaps/a', configMap('a', { n: '1' }));
    await api.given.update('configmaps/a', configMap('a', { n: '2' }));
    await watch.events(1);
  },
  'one object is watched by its name': async (api) => {
    const version = await versionNow(api, 'configmaps');
    const watch = await api.watch(`configmaps?fieldSelector=metadata.name%3Db&resourceVersion=${version}`);
    for (const name of ['a', 'b', 'c']) await api.given.create('configmaps', configMap(name));
    await api.given.delete('configmaps/b');
    await watch.events(2);
  },
  'an object that enters or leaves the selection is ADDED or DELETED': async (api) => {
    const version = await versionNow(api, 'configmaps');
    const watch = await api.watch(`configmaps?labelSelector=tier%3Dweb&resourceVersion=${version}`);
    const label = (tier: string | null) =>
      api.given.patch('configmaps/a', 'merge', { metadata: { labels: { tier } } });
    await api.given.create('configmaps', configMap('a'));
    await label('web');
    await api.given.patch('configmaps/a', 'merge', { data: { n: '1' } });
    await label('db');
    await label('web');
    await label(null);
    await watch.events(5);
  },
  'an object that is deleted while selected is DELETED once': async (api) => {
    const { object } = await api.given.create(
      'configmaps',
      configMap('a', undefined, { labels: { tier: 'web' }, finalizers: ['example.com/hold'] }),
    );
    const version = object.metadata.resourceVersion;
    const watch = await api.watch(`configmaps?labelSelector=tier%3Dweb&resourceVersion=${version}`);
    await api.given.delete('configmaps/a');
    await api.given.patch('configmaps/a', 'merge', { metadata: { finalizers: null } });
    await watch.events(2);
  },
  'all namespaces are watched at once': async (api) => {
    const version = await versionNow(api, 'configmaps');
    const path = `/api/v1/configmaps?labelSelector=across%3D${api.id}&resourceVersion=${version}`;
    const watch = await api.watch(path);
    const labels = { across: api.id };
    await api.given.create('/api/v1/namespaces/default/configmaps', configMap(api.id, undefined, { labels }));
    await api.given.create('configmaps', configMap('a', undefined, { labels }));
    await watch.events(2);
    await api.given.delete(`/api/v1/namespaces/default/configmaps/${api.id}`);
  },
  'cluster-scoped objects are watched': async (api) => {
    const watch = await api.watch(gadgets(`?labelSelector=of%3D${api.id}`));
    await api.given.create(gadgets(), gadget(`${api.id}-a`, {}, { labels: { of: api.id } }));
    await watch.events(1);
  },
  'an expired version is an ERROR event': async (api) => {
    const watch = await api.watch(widgets(api, '?resourceVersion=1'));
    await watch.untilClosed();
  },
  'a watch ends at its timeout': async (api) => {
    const watch = await api.watch('configmaps?timeoutSeconds=1');
    await watch.untilClosed();
  },
  'a bookmark is sent before the end': {
    run: async (api) => {
      const version = await versionNow(api, widgets(api));
      const query = `?allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion=${version}`;
      const watch = await api.watch(widgets(api, query));
      await watch.untilClosed();
    },
    // The number depends on when the server checks its clock.
    normalise: (transcript) =>
      transcript.map((exchange) =>
        'events' in exchange ? { ...exchange, events: exchange.events.slice(0, 1) } : exchange,
      ),
  },
  'only watch=true and watch=1 start a watch': async (api) => {
    await api.get('configmaps?watch=false', { show: ({ kind }) => kind });
  },
  'a field that cannot be selected cannot be watched': async (api) => {
    await api.get('configmaps?watch=1&fieldSelector=data.key%3Da');
  },
  'a watch of Tables sends rows, and columns first': async (api) => {
    const version = await versionNow(api, 'configmaps');
    const watch = await api.with(TABLE).watch(`configmaps?resourceVersion=${version}`);
    await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.delete('configmaps/a');
    await watch.events(2);
  },
  'a watch of metadata sends nothing else': async (api) => {
    const version = await versionNow(api, widgets(api));
    const watch = await api.with(METADATA).watch(widgets(api, `?resourceVersion=${version}`));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await watch.events(1);
  },
  'initial events end with a bookmark that says so': {
    since: '1.34', // WatchList is on by default: KEP-3157
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      const query = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
      const watch = await api.watch(`configmaps?${query}`);
      await watch.events(2);
    },
  },
  'initial events need to say how old they may be': {
    since: '1.34', // k8s.io/apimachinery ValidateListOptions, with WatchList on
    run: async (api) => {
      await api.get('configmaps?watch=1&sendInitialEvents=true');
    },
  },
});
