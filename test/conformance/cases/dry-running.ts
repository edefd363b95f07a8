import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';

export const dryRunning = group('dry running', {
  'a creation returns the would-be object': async (api) => {
    await api.create('configmaps?dryRun=All', configMap('a', { n: '1' }));
    await api.get('configmaps/a');
  },
  'a creation with generateName has a name': async (api) => {
    await api.create('configmaps?dryRun=All', { metadata: { generateName: 'made-' } });
  },
  'a creation is validated': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.create('configmaps?dryRun=All', configMap('a'));
    await api.create(widgets(api, '?dryRun=All'), widget('a', { size: 0 }));
  },
  'an update is not persisted': async (api) => {
    const { object } = await api.create('configmaps', configMap('a', { n: '1' }));
    await api.update('configmaps/a?dryRun=All', { ...object, data: { n: '2' } });
    await api.get('configmaps/a');
  },
  'an update with an old version is a conflict': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.update('configmaps/a', configMap('a', { n: '2' }));
    await api.update('configmaps/a?dryRun=All', { ...object, data: { n: '3' } });
  },
  'a patch is not persisted': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a?dryRun=All'), 'merge', { spec: { size: 2 } });
    await api.get(widgets(api, '/a'));
  },
  'an apply is not persisted': async (api) => {
    await api.apply('configmaps/a?dryRun=All&fieldManager=one', configMap('a', { n: '1' }));
    await api.get('configmaps/a');
  },
  'a deletion is not persisted': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.delete('configmaps/a?dryRun=All');
    await api.get('configmaps/a');
  },
  'a deletion may request dry run in its body': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.delete('configmaps/a', { dryRun: ['All'] });
    await api.get('configmaps/a');
  },
  'a collection deletion is not persisted': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.delete('configmaps?dryRun=All', undefined, { show: ({ kind }) => kind });
    await api.get('configmaps/a');
  },
  'the only value is All': async (api) => {
    await api.create('configmaps?dryRun=Some', configMap('a'));
    await api.patch('configmaps/a?dryRun=Some', 'merge', {});
    await api.delete('configmaps/a?dryRun=Some');
  },
  'a status write is not persisted': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.patch(widgets(api, '/a/status?dryRun=All'), 'merge', { status: { phase: 'Ready' } });
    await api.get(widgets(api, '/a'), { show: ({ status }) => status ?? 'no status' });
  },
  'later requests see the persisted state': async (api) => {
    const { object } = await api.given.create('configmaps', configMap('a', { n: '1' }));
    await api.given.patch('configmaps/a?dryRun=All', 'merge', { data: { n: '2' } });
    await api.update('configmaps/a', { ...object, data: { n: '3' } });
  },
});
