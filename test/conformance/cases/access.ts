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
  'a request without a token is anonymous and forbidden': async (api) => {
    await api.as(undefined).get('configmaps');
  },
  'an unknown token is unauthorized': async (api) => {
    await api.as(undefined).with({ authorization: 'Bearer nonsense' }).get('configmaps');
  },
  'health endpoints need no token': async (api) => {
    await api.as(undefined).get('/readyz');
    await api.as('alice').get('/version', { show: ({ major }) => major });
    await api.as('alice').get('/api', { show: ({ kind }) => kind });
  },
  'a ServiceAccount token lives at least ten minutes': async (api) => {
    await api.given.create('serviceaccounts', { metadata: { name: 'a' } });
    for (const expirationSeconds of [599, 2 ** 32 + 1])
      await api.create('serviceaccounts/a/token', { spec: { audiences: ['a'], expirationSeconds } });
    const { object } = await api.given.create('serviceaccounts/a/token', { spec: { audiences: ['a'] } });
    api.note('its life', (object.spec as Readonly<Record<string, unknown>>).expirationSeconds);
    await api.create('serviceaccounts/missing/token', { spec: {} });
  },
  'a ServiceAccount token can only be bound to an existing object': async (api) => {
    await api.given.create('serviceaccounts', { metadata: { name: 'a' } });
    await api.given.create('secrets', { metadata: { name: 'a' } });
    const bind = (boundObjectRef: object) =>
      api.create('serviceaccounts/a/token', { spec: { boundObjectRef } });
    await bind({ apiVersion: 'v1', kind: 'Secret', name: 'missing' });
    await bind({ apiVersion: 'v1', kind: 'ConfigMap', name: 'a' });
    await bind({ apiVersion: 'v1', kind: 'Secret', name: 'a', uid: '00000000-0000-0000-0000-000000000000' });
  },
  'the 403 of every verb names the verb': async (api) => {
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
  'the 403 names group, cluster scope and subresource': async (api) => {
    const asAlice = api.as('alice');
    await asAlice.get(widgets(api, '/a'));
    await asAlice.get(gadgets());
    await asAlice.patch(widgets(api, '/a/status'), 'merge', {});
    await asAlice.get('/api/v1/configmaps');
    await asAlice.get('/metrics');
  },
  'a forbidden object and a missing object give the same answer': async (api) => {
    await api.as('alice').get('nothings/a');
  },
  'a Role grants its permissions': async (api) => {
    await permit(api, READ);
    await known(api.as('alice'), 'configmaps');
    await api.as('alice').get('configmaps', { show: ({ kind }) => kind });
    await api.as('alice').create('configmaps', configMap('a'));
    await api.as('alice').get('/api/v1/namespaces/default/configmaps');
  },
  'a Role may grant access to single names': async (api) => {
    await permit(api, [
      { apiGroups: [''], resources: ['configmaps'], resourceNames: ['a'], verbs: ['get', 'list'] },
    ]);
    await known(api.as('alice'), 'configmaps/a');
    await api.as('alice').get('configmaps/a');
    await api.as('alice').get('configmaps/b');
    await api.as('alice').get('configmaps');
    await api.as('alice').get('configmaps?fieldSelector=metadata.name%3Da', { show: ({ kind }) => kind });
  },
  'a Role grants subresources by name': async (api) => {
    await permit(api, [
      { apiGroups: ['conformance.example.com'], resources: ['widgets/status'], verbs: ['get'] },
    ]);
    await api.given.create(widgets(api), widget('a'));
    await known(api.as('alice'), widgets(api, '/a/status'));
    await api.as('alice').get(widgets(api, '/a/status'), { show: ({ kind }) => kind });
    await api.as('alice').get(widgets(api, '/a'));
  },
  'stars grant everything': async (api) => {
    await permit(api, [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]);
    await known(api.as('alice'), 'configmaps');
    await api.as('alice').create('configmaps', configMap('a'), { show: ({ kind }) => kind });
    await api.as('alice').get(widgets(api), { show: ({ kind }) => kind });
  },
  'a group can be granted permissions': async (api) => {
    const everybody = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:authenticated' };
    await permit(api, READ, everybody);
    await known(api.as('alice'), 'configmaps');
    await api.as('alice').get('configmaps', { show: ({ kind }) => kind });
  },
  'a ServiceAccount can be granted permissions': async (api) => {
    const account = { kind: 'ServiceAccount', namespace: 'gatehouse-system', name: 'gatehouse' };
    await permit(api, READ, account);
    await known(api.as('gatehouse'), 'configmaps');
    await api.as('gatehouse').get('configmaps', { show: ({ kind }) => kind });
    await api.as('gatehouse').get('secrets');
  },
  'users cannot grant permissions that they do not have': {
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
  'a rule requires verbs': async (api) => {
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
  'an admin may impersonate another user': async (api) => {
    await api.with({ 'impersonate-user': 'bob' }).get('configmaps');
    await api.with({ 'impersonate-user': 'bob', 'impersonate-group': 'system:masters' }).get('configmaps', {
      show: ({ kind }) => kind,
    });
  },
  'a ServiceAccount can be impersonated by its name': async (api) => {
    await api.with({ 'impersonate-user': 'system:serviceaccount:default:robot' }).get('configmaps');
  },
  'impersonation requires permission': async (api) => {
    await api.as('alice').with({ 'impersonate-user': 'bob' }).get('configmaps');
    await api
      .as('alice')
      .with({ 'impersonate-user': 'system:serviceaccount:default:robot' })
      .get('configmaps');
  },
  'a group can be impersonated only together with a user': {
    run: async (api) => {
      await api.with({ 'impersonate-group': 'system:masters' }).get('configmaps');
    },
    // Clients do not rely on the status and the words.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status >= 400 : exchange)),
  },
  'every user may list their own permissions': async (api) => {
    await permit(api, READ);
    await known(api.as('alice'), 'configmaps');
    const ask = (attributes: object) =>
      api
        .as('alice')
        .create(`${AUTHORIZATION}/selfsubjectaccessreviews`, review(api, attributes), { show: verdict });
    await ask({ verb: 'list', resource: 'configmaps' });
    await ask({ verb: 'delete', resource: 'configmaps' });
  },
  'a SelfSubjectReview returns all user data': async (api) => {
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
  'SubjectAccessReviews require permission': async (api) => {
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
