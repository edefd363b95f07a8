import type { Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, permit, widget, widgets } from '../fixtures.ts';
import { allow, type Review } from '../hook-server.ts';
import { upToColon } from '../wording.ts';
import { rule } from './webhook-helpers.ts';

const by = (manager: string, more = '') => `?fieldManager=${manager}${more}`;

/** Server-side apply changes only fields that a manager wants. */
const data = ({ data }: Loose) => data;
const spec = ({ spec }: Loose) => spec;

/** The managers of fields. `.` keys and `subresource` differ between releases. */
function owners({ metadata }: Loose): unknown {
  const entries = metadata.managedFields as readonly Record<string, unknown>[] | undefined;
  return (entries ?? []).map(({ manager, operation, apiVersion, fieldsType, fieldsV1 }) => ({
    manager,
    operation,
    apiVersion,
    fieldsType,
    fieldsV1,
  }));
}

export const applying = group('applying', {
  'a missing object is created': {
    keepManagedFields: true,
    run: async (api) => {
      await api.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }, { labels: { a: 'b' } }));
    },
  },
  'a missing custom resource is created': {
    keepManagedFields: true,
    run: async (api) => {
      await api.apply(
        widgets(api, `/a${by('one')}`),
        widget('a', { size: 1, ports: [{ name: 'http', port: 80 }] }),
      );
    },
  },
  'YAML is accepted': async (api) => {
    const yaml = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: value\n';
    await api.apply(`configmaps/a${by('one')}`, yaml);
  },
  'applying the same again changes nothing': async (api) => {
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }));
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }));
  },
  'a forged deletionTimestamp of a new object reaches mutating webhooks only': {
    since: '1.37', // Store.Update runs rest.WipeObjectMetaSystemFields (kubernetes/kubernetes#133388)
    run: async (api) => {
      const isForged = ({ request: { object } }: Review) => object?.metadata.deletionTimestamp !== undefined;
      const hooks = ['mutating', 'validating'] as const;
      for (const name of hooks) api.hooks.serve(name, () => allow());
      const entries = hooks.map((name) => api.hooks.entry(name, rule(['CREATE'], ['widgets'])));
      await api.install({ kind: 'Mutating', webhooks: entries.slice(0, 1) });
      await api.install({ kind: 'Validating', name: 'validators', webhooks: entries.slice(1) });
      const forged = { deletionTimestamp: '2001-01-01T00:00:00Z', finalizers: ['example.com/hold'] };
      const show = ({ metadata }: Loose) => metadata.deletionTimestamp ?? 'none';
      await api.apply(widgets(api, `/a${by('one')}`), widget('a', { size: 1 }, forged), { show });
      await api.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }, forged), { show });
      await api.get('configmaps/a', { show });
      for (const name of hooks) api.noteReviews(name, isForged);
    },
  },
  'a manager is required': async (api) => {
    await api.apply('configmaps/a', configMap('a'));
  },
  'the fieldManager may not be too long': async (api) => {
    await api.apply(`configmaps/a${by('m'.repeat(129))}`, configMap('a'));
  },
  'apiVersion and kind are required': async (api) => {
    await api.apply(`configmaps/a${by('one')}`, { metadata: { name: 'a' } });
    await api.apply(widgets(api, `/a${by('one')}`), { metadata: { name: 'a' } });
  },
  'a configuration with another or no kind cannot be merged': {
    run: async (api) => {
      await api.apply(`configmaps/a${by('one')}`, { apiVersion: 'v1', metadata: { name: 'a' } });
      await api.apply(`configmaps/a${by('one')}`, { ...configMap('a'), kind: 'Secret' });
      await api.apply(widgets(api, `/a${by('one')}`), { ...widget('a'), kind: 'Gadget' });
    },
    // The message comes from the merge library.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status : exchange)),
  },
  'a configuration that is neither JSON nor YAML is rejected': {
    since: '1.37', // validateAndTranscodePatch; before that, "error decoding YAML" for both
    run: async (api) => {
      await api.apply(`configmaps/a${by('one')}`, '{"data":');
      await api.apply(`configmaps/a${by('one')}`, 'data: [');
    },
    normalise: upToColon,
  },
  'the name in the body must match the path': async (api) => {
    await api.apply(`configmaps/a${by('one')}`, configMap('b'));
  },
  'managedFields may not be applied': async (api) => {
    const managedFields = [{ manager: 'forged', operation: 'Apply', apiVersion: 'v1' }];
    await api.apply(`configmaps/a${by('one')}`, configMap('a', {}, { managedFields }));
  },
  'the same value has two managers': {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }));
      await api.apply(`configmaps/a${by('two')}`, configMap('a', { key: 'value' }), { show: owners });
    },
  },
  'a value of another manager is a conflict': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.apply(`configmaps/a${by('two')}`, configMap('a', { key: 'changed' }));
  },
  'every field of another manager is a cause': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.apply(`configmaps/a${by('two')}`, configMap('a', { key: 'changed', other: 'y' }));
  },
  'a value that an update set is also a conflict': async (api) => {
    await api.given.create(`configmaps${by('one')}`, configMap('a', { key: 'value' }));
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
  'a manager that lost a field may omit it': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.given.apply(`configmaps/a${by('two', '&force=true')}`, configMap('a', { key: 'changed' }));
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { other: 'x' }), { show: data });
  },
  'fields that a manager omits are removed': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { other: 'x' }), { show: data });
  },
  'fields with another manager stay when one manager omits them': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value', other: 'x' }));
    await api.given.apply(`configmaps/a${by('two')}`, configMap('a', { key: 'value' }));
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { other: 'x' }), { show: data });
  },
  'fields set by updates of other managers stay': async (api) => {
    await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }));
    await api.given.patch(`configmaps/a${by('two')}`, 'merge', { data: { other: 'x' } });
    await api.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'changed' }), { show: data });
  },
  'a manager that applies nothing keeps the object': {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.apply(`configmaps/a${by('one')}`, configMap('a', { key: 'value' }));
      await api.apply(`configmaps/a${by('one')}`, configMap('a'), {
        show: (object) => [data(object) ?? 'no data', owners(object)],
      });
    },
  },
  'list items have their own managers': async (api) => {
    const ports = (...items: readonly object[]) => widget('a', { ports: items });
    await api.given.apply(widgets(api, `/a${by('one')}`), ports({ name: 'http', port: 80 }));
    await api.apply(widgets(api, `/a${by('two')}`), ports({ name: 'https', port: 443 }), { show: spec });
    await api.apply(widgets(api, `/a${by('one')}`), ports(), { show: spec });
  },
  'a field of an item of another manager is a conflict': async (api) => {
    const port = (number: number) => widget('a', { ports: [{ name: 'http', port: number }] });
    await api.given.apply(widgets(api, `/a${by('one')}`), port(80));
    await api.apply(widgets(api, `/a${by('two')}`), port(81));
  },
  'an item of a list needs its key': {
    run: async (api) => {
      await api.apply(widgets(api, `/a${by('one')}`), widget('a', { ports: [{ port: 80 }] }));
    },
    // Releases differ in whether the merge or the schema detects the problem first; the rejection is the same.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status >= 400 : exchange)),
  },
  'items must be unique': {
    run: async (api) => {
      const ports = [{ name: 'a' }, { name: 'a' }];
      await api.apply(widgets(api, `/a${by('one')}`), widget('a', { ports }));
    },
    // Releases differ in the merge library's status and words; the rejection is the same.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status >= 400 : exchange)),
  },
  'a set is merged': async (api) => {
    const tags = (...items: readonly string[]) => widget('a', { size: 1, tags: items });
    await api.given.apply(widgets(api, `/a${by('one')}`), tags('x', 'y'));
    await api.apply(widgets(api, `/a${by('two')}`), tags('y', 'z'), { show: spec });
    await api.apply(widgets(api, `/a${by('one')}`), widget('a', { size: 1 }), { show: spec });
  },
  'a plain list has one manager': async (api) => {
    await api.given.apply(widgets(api, `/a${by('one')}`), widget('a', { steps: ['x'] }));
    await api.apply(widgets(api, `/a${by('two')}`), widget('a', { steps: ['x', 'y'] }));
  },
  'Service ports are identified by number and protocol': async (api) => {
    const service = (...ports: readonly object[]) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'a' },
      spec: { selector: { app: 'a' }, ports },
    });
    const one = { name: 'one', port: 1, protocol: 'TCP' };
    const two = { name: 'two', port: 2, protocol: 'TCP' };
    await api.given.apply(`services/a${by('one')}`, service(one));
    await api.apply(`services/a${by('two')}`, service(two), { show: spec });
    await api.apply(`services/a${by('two')}`, service({ ...one, targetPort: 11 }));
  },
  'a field that a manager leaves out falls back to its default': async (api) => {
    await api.apply(widgets(api, `/a${by('one')}`), widget('a', { size: 1, tier: 'gold' }), { show: spec });
    await api.apply(widgets(api, `/a${by('one')}`), widget('a', { size: 1 }), { show: spec });
  },
  'applied objects are validated': async (api) => {
    await api.apply(widgets(api, `/a${by('one')}`), widget('a', { size: 101 }));
  },
  'a status is applied at its own path': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    const { apiVersion, kind, metadata } = widget('a');
    const ready = { apiVersion, kind, metadata, status: { phase: 'Ready' } };
    await api.apply(widgets(api, `/a/status${by('one')}`), ready);
  },
  'a resourceVersion in the body must be current': async (api) => {
    const { object } = await api.given.create(`configmaps${by('one')}`, configMap('a'));
    const { resourceVersion } = object.metadata;
    await api.given.patch('configmaps/a', 'merge', { data: { n: '1' } });
    await api.apply(`configmaps/a${by('one')}`, configMap('a', {}, { resourceVersion }));
  },
  'a uid in the body for a missing object is a conflict': async (api) => {
    const uid = '00000000-0000-0000-0000-000000000000';
    await api.apply(`configmaps/a${by('one')}`, configMap('a', {}, { uid }));
  },
  'apply cannot create without create permission': async (api) => {
    await permit(api, [{ apiGroups: [''], resources: ['configmaps'], verbs: ['patch', 'get'] }]);
    await api.as('alice').until('configmaps/a', ({ status }) => status !== 403);
    await api.as('alice').apply(`configmaps/a${by('one')}`, configMap('a'));
  },
  'structs of a built-in kind have no manager, only their fields do': {
    keepManagedFields: true,
    run: async (api) => {
      const leases = `/apis/coordination.k8s.io/v1/namespaces/${api.id}/leases`;
      const spec = { holderIdentity: 'a', leaseDurationSeconds: 1 };
      await api.create(`${leases}${by('a')}`, { metadata: { name: 'a' }, spec }, { show: owners });
    },
  },
  "the manager of a create defaults to the client's User-Agent": {
    keepManagedFields: true,
    run: async (api) => {
      await api.create('configmaps', configMap('a', { key: 'value' }), { show: owners });
    },
  },
  'an update makes its manager own the changed fields': {
    keepManagedFields: true,
    run: async (api) => {
      const made = await api.given.create(`configmaps${by('a')}`, configMap('a', { one: '1', two: '2' }));
      const object = { ...made.object, data: { one: '11', two: '2', three: '3' } };
      await api.update(`configmaps/a${by('b')}`, object, { show: owners });
    },
  },
  'a patch makes its manager own the changed fields': {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.create(widgets(api, by('a')), widget('a', { size: 1, notes: { x: '1' } }));
      await api.patch(
        widgets(api, `/a${by('b')}`),
        'merge',
        { spec: { size: 2, notes: { y: '2' } } },
        { show: owners },
      );
    },
  },
  "an update that takes a manager's last field removes the manager": {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.create(`configmaps${by('a')}`, configMap('a', { one: '1' }));
      await api.given.patch(`configmaps/a${by('b')}`, 'merge', { data: { two: '2' } });
      await api.patch(`configmaps/a${by('c')}`, 'merge', { data: { two: null } }, { show: owners });
    },
  },
  'managedFields of an empty list are reset': {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.create(`configmaps${by('a')}`, configMap('a', { one: '1' }));
      await api.patch(
        `configmaps/a${by('b')}`,
        'merge',
        { metadata: { managedFields: [{}] } },
        {
          show: ({ metadata }) => metadata.managedFields ?? 'none',
        },
      );
    },
  },
  'a change of status names its manager and the subresource': {
    keepManagedFields: true,
    run: async (api) => {
      await api.given.create(widgets(api, by('a')), widget('a', { size: 1 }));
      await api.patch(
        widgets(api, `/a/status${by('b')}`),
        'merge',
        { status: { phase: 'Ready' } },
        {
          show: ({ metadata }) => metadata.managedFields,
        },
      );
    },
  },
});
