import type { Api } from '../api.ts';
import { group } from '../case.ts';
import { configMap, gadgets, permit, widget, widgets } from '../fixtures.ts';
import { upToColon } from '../wording.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const AUTHORIZATION = '/apis/authorization.k8s.io/v1';

/** Waits until the API server knows a new permission, which takes a moment. */
const known = (api: Api, path: string) => api.until(path, ({ status }) => status !== 403);

const READ = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list'] }];

const review = (api: Api, attributes: object) => ({
  spec: { resourceAttributes: { namespace: api.id, ...attributes } },
});

/** The reason names the binding in words that no client relies on. */
const verdict = ({ status }: Readonly<Record<string, unknown>>) => {
  const { allowed, denied } = status as { readonly allowed: boolean; readonly denied?: boolean };
  return { allowed, denied: denied ?? false };
};

export const access = group('access', {
  'without a token, one is anonymous, who may do nothing': async (api) => {
    await api.as(undefined).get('configmaps');
  },
  'a token that nobody has is not let in': async (api) => {
    await api.as(undefined).with({ authorization: 'Bearer nonsense' }).get('configmaps');
  },
  'health is for everybody': async (api) => {
    await api.as(undefined).get('/readyz');
    await api.as('alice').get('/version', { show: ({ major }) => major });
    await api.as('alice').get('/api', { show: ({ kind }) => kind });
  },
  'a token of a ServiceAccount lives from ten minutes on': async (api) => {
    await api.given.create('serviceaccounts', { metadata: { name: 'a' } });
    for (const expirationSeconds of [599, 2 ** 32 + 1])
      await api.create('serviceaccounts/a/token', { spec: { audiences: ['a'], expirationSeconds } });
    const { object } = await api.given.create('serviceaccounts/a/token', { spec: { audiences: ['a'] } });
    api.note('its life', (object.spec as Readonly<Record<string, unknown>>).expirationSeconds);
    await api.create('serviceaccounts/missing/token', { spec: {} });
  },
  'a token of a ServiceAccount is bound to what is there': async (api) => {
    await api.given.create('serviceaccounts', { metadata: { name: 'a' } });
    await api.given.create('secrets', { metadata: { name: 'a' } });
    const bind = (boundObjectRef: object) =>
      api.create('serviceaccounts/a/token', { spec: { boundObjectRef } });
    await bind({ apiVersion: 'v1', kind: 'Secret', name: 'missing' });
    await bind({ apiVersion: 'v1', kind: 'ConfigMap', name: 'a' });
    await bind({ apiVersion: 'v1', kind: 'Secret', name: 'a', uid: '00000000-0000-0000-0000-000000000000' });
  },
  'every verb is forbidden in its own words': async (api) => {
    const asAlice = api.as('alice');
    await asAlice.get('configmaps');
    await asAlice.get('configmaps/a');
    await asAlice.get('configmaps?watch=1');
    await asAlice.create('configmaps', configMap('a'));
    await asAlice.update('configmaps/a', configMap('a'));
    await asAlice.patch('configmaps/a', 'merge', {});
    await asAlice.delete('configmaps/a');
    await asAlice.delete('configmaps');
  },
  'what has a group, no namespace or a subresource is forbidden in other words': async (api) => {
    const asAlice = api.as('alice');
    await asAlice.get(widgets(api, '/a'));
    await asAlice.get(gadgets());
    await asAlice.patch(widgets(api, '/a/status'), 'merge', {});
    await asAlice.get('/api/v1/configmaps');
    await asAlice.get('/metrics');
  },
  'what is forbidden is not told from what is not there': async (api) => {
    await api.as('alice').get('nothings/a');
  },
  'a Role permits what it says': async (api) => {
    await permit(api, READ);
    await known(api.as('alice'), 'configmaps');
    await api.as('alice').get('configmaps', { show: ({ kind }) => kind });
    await api.as('alice').create('configmaps', configMap('a'));
    await api.as('alice').get('/api/v1/namespaces/default/configmaps');
  },
  'a Role may permit single names': async (api) => {
    await permit(api, [
      { apiGroups: [''], resources: ['configmaps'], resourceNames: ['a'], verbs: ['get', 'list'] },
    ]);
    await known(api.as('alice'), 'configmaps/a');
    await api.as('alice').get('configmaps/a');
    await api.as('alice').get('configmaps/b');
    await api.as('alice').get('configmaps');
    await api.as('alice').get('configmaps?fieldSelector=metadata.name%3Da', { show: ({ kind }) => kind });
  },
  'a Role permits subresources by name': async (api) => {
    await permit(api, [
      { apiGroups: ['conformance.example.com'], resources: ['widgets/status'], verbs: ['get'] },
    ]);
    await api.given.create(widgets(api), widget('a'));
    await known(api.as('alice'), widgets(api, '/a/status'));
    await api.as('alice').get(widgets(api, '/a/status'), { show: ({ kind }) => kind });
    await api.as('alice').get(widgets(api, '/a'));
  },
  'stars permit everything': async (api) => {
    await permit(api, [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]);
    await known(api.as('alice'), 'configmaps');
    await api.as('alice').create('configmaps', configMap('a'), { show: ({ kind }) => kind });
    await api.as('alice').get(widgets(api), { show: ({ kind }) => kind });
  },
  'a group is permitted': async (api) => {
    const everybody = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:authenticated' };
    await permit(api, READ, everybody);
    await known(api.as('alice'), 'configmaps');
    await api.as('alice').get('configmaps', { show: ({ kind }) => kind });
  },
  'a service account is permitted': async (api) => {
    const account = { kind: 'ServiceAccount', namespace: 'gatehouse-system', name: 'gatehouse' };
    await permit(api, READ, account);
    await known(api.as('gatehouse'), 'configmaps');
    await api.as('gatehouse').get('configmaps', { show: ({ kind }) => kind });
    await api.as('gatehouse').get('secrets');
  },
  'nobody gives away what he does not have': {
    run: async (api) => {
      const verbs = ['list', 'create']; // and not `escalate`
      await permit(api, [{ apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles'], verbs }]);
      const roles = `${RBAC}/namespaces/${api.id}/roles`;
      await known(api.as('alice'), roles);
      await api.as('alice').create(roles, { metadata: { name: 'more' }, rules: READ });
    },
    normalise: upToColon, // the rest lists the missing permissions in Go syntax
  },
  'the role of a binding cannot be changed': async (api) => {
    await permit(api, READ);
    const path = `${RBAC}/namespaces/${api.id}/rolebindings/some`;
    await api.patch(path, 'merge', {
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'other' },
    });
  },
  'a rule has verbs': async (api) => {
    await api.create(`${RBAC}/namespaces/${api.id}/roles`, {
      metadata: { name: 'a' },
      rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: [] }],
    });
  },
  'aggregated roles are filled by their labels': async (api) => {
    const labels = { [`${api.id}.example.com/part`]: 'true' };
    await api.given.create(`${RBAC}/clusterroles`, {
      metadata: { name: `${api.id}-sum` },
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: labels }] },
      rules: [],
    });
    await api.given.create(`${RBAC}/clusterroles`, {
      metadata: { name: `${api.id}-part`, labels },
      rules: READ,
    });
    const path = `${RBAC}/clusterroles/${api.id}-sum`;
    await api.until(path, ({ object }) => (object.rules as readonly unknown[] | null)?.length === 1);
    await api.get(path, { show: ({ aggregationRule, rules }) => ({ aggregationRule, rules }) });
  },
  'an admin may act as somebody else': async (api) => {
    await api.with({ 'impersonate-user': 'bob' }).get('configmaps');
    await api.with({ 'impersonate-user': 'bob', 'impersonate-group': 'system:masters' }).get('configmaps', {
      show: ({ kind }) => kind,
    });
  },
  'a service account is acted for by its name': async (api) => {
    await api.with({ 'impersonate-user': 'system:serviceaccount:default:robot' }).get('configmaps');
  },
  'impersonation has to be permitted': async (api) => {
    await api.as('alice').with({ 'impersonate-user': 'bob' }).get('configmaps');
    await api
      .as('alice')
      .with({ 'impersonate-user': 'system:serviceaccount:default:robot' })
      .get('configmaps');
  },
  'a group is acted for together with a user only': {
    run: async (api) => {
      await api.with({ 'impersonate-group': 'system:masters' }).get('configmaps');
    },
    // Clients do not rely on the status and the words.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status >= 400 : exchange)),
  },
  'everybody may ask what he may do': async (api) => {
    await permit(api, READ);
    await known(api.as('alice'), 'configmaps');
    const ask = (attributes: object) =>
      api
        .as('alice')
        .create(`${AUTHORIZATION}/selfsubjectaccessreviews`, review(api, attributes), { show: verdict });
    await ask({ verb: 'list', resource: 'configmaps' });
    await ask({ verb: 'delete', resource: 'configmaps' });
  },
  'a review of oneself is answered whole': {
    run: async (api) => {
      const attributes = { verb: 'list', resource: 'configmaps' };
      await api.create(`${AUTHORIZATION}/selfsubjectaccessreviews`, review(api, attributes), {
        show: ({ kind, apiVersion, spec, status }) => ({
          kind,
          apiVersion,
          spec,
          allowed: verdict({ status }),
        }),
      });
    },
  },
  'who may ask what others may do': async (api) => {
    const ask = (who: Api, spec: object) =>
      who.create(`${AUTHORIZATION}/subjectaccessreviews`, { spec }, { show: verdict });
    const resourceAttributes = { namespace: api.id, verb: 'list', resource: 'configmaps' };
    await ask(api, { resourceAttributes, user: 'alice' });
    await ask(api, { resourceAttributes, user: 'alice', groups: ['system:masters'] });
    await ask(api, {
      nonResourceAttributes: { path: '/healthz', verb: 'get' },
      user: 'alice',
      groups: ['system:authenticated'],
    });
    await ask(api.as('alice'), { resourceAttributes, user: 'bob' });
  },
  'a review needs a subject and something to review': async (api) => {
    await api.create(`${AUTHORIZATION}/subjectaccessreviews`, { spec: {} });
  },
});
