// suite: shared-plane, sandbox: long
/**
 * An attacker who has taken over the webhook process has its account. The test tries every verb on every kind that the API
 * server knows: the account can change nothing but UniqueClaims, and reads one Secret.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { mapConcurrent } from '../../src/json/map-concurrent.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import { createClient } from '../../src/kube/client.ts';
import { clusterRoles, secrets } from '../../src/kube/well-known.ts';
import type { Rest } from '../../src/kube/rest.ts';
import { ROLES, startClusterFor, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import type { GrantingRole } from '../support/grants.ts';
import { eventually, freePort } from '../support/processes.ts';
import { serviceAccounts } from '../support/status-viewers.ts';

let cluster: Cluster;
let webhook: Rest;
let controllers: Rest;

const asUser = ({ name, groups }: (typeof USERS)[keyof typeof USERS]): Rest =>
  cluster.adminRest.impersonate({ user: name, groups: [...groups, 'system:authenticated'] });

beforeAll(async () => {
  cluster = await startClusterFor(await freePort());
  webhook = asUser(USERS.webhook);
  controllers = asUser(USERS.controllers);
  // What the test expects to be refused must not be refused because the bindings are not in force yet.
  await eventually(
    'the roles are in force',
    async () =>
      (await ask(webhook, 'list', { path: '/apis/gatehouse.dev/v1alpha1/admissionpolicies' })) === 'allowed',
  );
});

afterAll(() => cluster.stop());

interface Kind {
  /** `apps/deployments/scale`, `core/pods`. */
  readonly name: string;
  /** Of the collection, in each namespace. */
  readonly collections: readonly string[];
  readonly subresource: string | undefined;
  /** What to name in requests: roles can permit single objects. */
  readonly names: readonly string[];
  readonly verbs: readonly string[];
}

interface ResourceList {
  readonly resources: readonly {
    readonly name: string;
    readonly namespaced: boolean;
    readonly verbs: readonly string[];
  }[];
}

const NAMESPACES = [SYSTEM_NAMESPACE, 'kube-system'];
const ANY = 'some';

/** Every resource and subresource in every served version. */
async function kindsOf(rest: Rest): Promise<readonly Kind[]> {
  const { groups } = await rest.request<{
    readonly groups: readonly { readonly versions: readonly { readonly groupVersion: string }[] }[];
  }>({ method: 'GET', path: '/apis' });
  const named = await namesInRoles();
  const versions = groups.flatMap((group) => group.versions.map(({ groupVersion }) => groupVersion));
  const lists = await mapConcurrent(['v1', ...versions], 8, async (version) => {
    const root = version === 'v1' ? '/api/v1' : `/apis/${version}`;
    const { resources } = await rest.request<ResourceList>({ method: 'GET', path: root });
    const group = version === 'v1' ? '' : (version.split('/')[0] ?? '');
    return resources.map(({ name, namespaced, verbs }): Kind => {
      const [resource = '', subresource] = name.split('/');
      const places = namespaced ? NAMESPACES.map((namespace) => `/namespaces/${namespace}`) : [''];
      return {
        name: `${group === '' ? 'core' : group}/${name}`,
        collections: places.map((place) => `${root}${place}/${resource}`),
        subresource,
        names: [ANY, ...(named.get(`${group}/${name}`) ?? [])],
        verbs,
      };
    });
  });
  return lists.flat();
}

/** By group and resource: the names in `resourceNames` of any role. */
async function namesInRoles(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const named = new Map<string, Set<string>>();
  for (const kind of [ROLES, clusterRoles]) {
    const { items } = await cluster.admin.listAll<GrantingRole>(kind);
    for (const { apiGroups = [], resources = [], resourceNames = [] } of items.flatMap(
      ({ rules }) => rules ?? [],
    ))
      for (const key of apiGroups.flatMap((group) => resources.map((one) => `${group}/${one}`)))
        named.set(key, new Set([...(named.get(key) ?? []), ...resourceNames]));
  }
  return named;
}

const METHODS = {
  get: 'GET',
  list: 'GET',
  watch: 'GET',
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
} as const;
type Verb = keyof typeof METHODS;
const READS = ['get', 'list', 'watch'] as const;
const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection'] as const;

/**
 * The authorizer's decision. An authorized request changes nothing: it is a dry run with an invalid object, or for an
 * object that does not exist.
 */
async function ask(
  rest: Rest,
  verb: Verb,
  { path, fieldSelector }: { readonly path: string; readonly fieldSelector?: string },
): Promise<'refused' | 'allowed'> {
  const method = METHODS[verb];
  const isRead = method === 'GET';
  try {
    if (verb === 'watch')
      for await (const _line of rest.stream({
        path,
        query: { watch: true, timeoutSeconds: 1, fieldSelector },
      }))
        return 'allowed';
    await rest.request({
      method,
      path,
      query: isRead ? { limit: 1, fieldSelector } : { dryRun: 'All' },
      ...(isRead ? {} : { body: {} }),
      contentType: method === 'PATCH' ? 'application/merge-patch+json' : undefined,
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === 403 && error.message.includes(' cannot ')) return 'refused';
  }
  return 'allowed';
}

interface Question {
  /** `get core/secrets`, `get core/secrets gatehouse-serving`. */
  readonly text: string;
  readonly path: string;
  readonly fieldSelector?: string;
}

function questionsAbout(verb: Verb, { name, collections, subresource, names }: Kind): readonly Question[] {
  const ofCollection = ['list', 'watch', 'create', 'deletecollection'].includes(verb);
  return collections.flatMap((path) =>
    (verb === 'create' && subresource === undefined ? [ANY] : names).map((one): Question => {
      const text = [verb, name, ...(one === ANY ? [] : [one])].join(' ');
      if (subresource !== undefined) return { text, path: `${path}/${one}/${subresource}` };
      if (!ofCollection) return { text, path: `${path}/${one}` };
      return one === ANY ? { text, path } : { text, path, fieldSelector: `metadata.name=${one}` };
    }),
  );
}

/** What the account may do: `create gatehouse.dev/uniqueclaims`. Names are left out if every name is permitted. */
async function allowed(
  rest: Rest,
  verbs: readonly Verb[],
  kinds: readonly Kind[],
): Promise<readonly string[]> {
  const tries = kinds.flatMap((kind) =>
    verbs.flatMap((verb) => questionsAbout(verb, kind).map((question) => ({ verb, ...question }))),
  );
  const found = await mapConcurrent(tries, 8, async ({ verb, text, ...question }) =>
    (await ask(rest, verb, question)) === 'allowed' ? [text] : [],
  );
  const all = new Set(found.flat());
  return [...all]
    .filter((one) => !all.has(one.split(' ').slice(0, 2).join(' ')) || one.split(' ').length === 2)
    .toSorted();
}

/** Reviews answer a question and store nothing. */
const REVIEW = /^create (authorization|authentication)\.k8s\.io\/\w+reviews$/;

test('the account can change nothing but UniqueClaims', async () => {
  const kinds = await kindsOf(cluster.adminRest);
  console.log(`${kinds.length} kinds and subresources, ${WRITES.length} verbs`);
  expect(kinds.length).toBeGreaterThan(45);
  const may = await allowed(webhook, WRITES, kinds);
  expect(may.filter((one) => !REVIEW.test(one))).toEqual([
    'create gatehouse.dev/uniqueclaims',
    'delete gatehouse.dev/uniqueclaims',
    'update gatehouse.dev/uniqueclaims',
  ]);
  // The test would notice more: the other account may do more.
  const ofSecrets = kinds.filter(({ name }) => name === 'core/secrets');
  const others = await allowed(controllers, ['create', 'update'], ofSecrets);
  expect(others).toContain('create core/secrets');
  expect(others).toContain('update core/secrets');
});

test('the account has none of the verbs that give the rights of others', async () => {
  const questions = [
    ['impersonate', '', 'users'],
    ['impersonate', '', 'groups'],
    ['impersonate', '', 'serviceaccounts'],
    ['bind', 'rbac.authorization.k8s.io', 'clusterroles'],
    ['escalate', 'rbac.authorization.k8s.io', 'clusterroles'],
    ['bind', 'rbac.authorization.k8s.io', 'roles'],
    ['escalate', 'rbac.authorization.k8s.io', 'roles'],
    ['approve', 'certificates.k8s.io', 'signers'],
    ['sign', 'certificates.k8s.io', 'signers'],
    ['attest', 'certificates.k8s.io', 'signers'],
    ['open', 'gatehouse.dev', 'restorewindows'],
  ];
  interface Review extends KubeObject {
    readonly spec: object;
    readonly status?: { readonly allowed: boolean };
  }
  for (const [verb = '', group = '', resource = ''] of questions) {
    const { name: user, groups } = USERS.webhook;
    const { status } = await cluster.adminRest.request<Review>({
      method: 'POST',
      path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user, groups, resourceAttributes: { verb, group, resource, namespace: SYSTEM_NAMESPACE } },
      },
    });
    expect(status?.allowed, `${verb} ${resource}`).toBe(false);
  }
});

test('the account reads only what admission needs', async () => {
  const kinds = (await kindsOf(cluster.adminRest)).filter(({ subresource }) => subresource === undefined);
  const readable = kinds.filter(({ verbs }) => READS.some((verb) => verbs.includes(verb)));
  // Kubernetes 1.37 lets every service account read ClusterTrustBundles.
  const groups = ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'];
  const another = cluster.adminRest.impersonate({ user: 'system:serviceaccount:default:another', groups });
  const ofAll = await allowed(another, READS, readable);
  expect((await allowed(webhook, READS, readable)).filter((one) => !ofAll.includes(one))).toEqual(
    [
      ...['list', 'watch'].flatMap((verb) => [
        `${verb} apiextensions.k8s.io/customresourcedefinitions`,
        `${verb} core/secrets gatehouse-serving`,
        `${verb} core/services gatehouse`,
        `${verb} gatehouse.dev/admissionpolicies`,
        `${verb} gatehouse.dev/conversionpolicies`,
        `${verb} gatehouse.dev/policyexceptions`,
        `${verb} gatehouse.dev/restoredetectors`,
        `${verb} gatehouse.dev/restorewindows`,
      ]),
      ...READS.flatMap((verb) => [
        `${verb} admissionregistration.k8s.io/mutatingwebhookconfigurations gatehouse`,
        `${verb} admissionregistration.k8s.io/validatingwebhookconfigurations gatehouse`,
        `${verb} gatehouse.dev/uniqueclaims`,
      ]),
      'get apiextensions.k8s.io/customresourcedefinitions',
      'get core/configmaps gatehouse-cabundle',
      'get core/namespaces',
      'get gatehouse.dev/admissionpolicies',
      'get rbac.authorization.k8s.io/clusterroles gatehouse-references',
    ].toSorted(),
  );
});

test('of all Secrets, the account reads only the one with its serving certificate', async () => {
  const own = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`;
  const named = (name: string) => ({ path: own, fieldSelector: `metadata.name=${name}` });
  expect(await ask(webhook, 'list', named('gatehouse-serving'))).toBe('allowed');
  for (const name of ['gatehouse-authority', 'gatehouse-reads', 'gatehouse-webhook-path']) {
    expect(await ask(webhook, 'list', named(name)), name).toBe('refused');
    expect(await ask(webhook, 'get', { path: `${own}/${name}` }), name).toBe('refused');
  }
  expect(await ask(webhook, 'list', { path: '/api/v1/secrets' })).toBe('refused');
  expect(await ask(webhook, 'list', { path: '/api/v1/namespaces/kube-system/secrets' })).toBe('refused');
});

test('neither account can create a token for the account of an administrator', async () => {
  const namespace = 'kube-system';
  const name = 'root';
  await cluster.admin.create(serviceAccounts, { metadata: { namespace, name } });
  const token = {
    metadata: { namespace, name: 'loot', annotations: { 'kubernetes.io/service-account.name': name } },
    type: 'kubernetes.io/service-account-token',
  };
  const attempt = (rest: Rest) => createClient(rest).create<typeof token & KubeObject>(secrets, token);
  await expect(attempt(webhook)).rejects.toMatchObject({ code: 403 });
  expect(await cluster.admin.get(secrets, { namespace, name: 'loot' })).toBeUndefined();
  for (const rest of [webhook, controllers]) {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
    expect(await ask(rest, 'create', { path })).toBe('refused');
    expect(await createClient(rest).get(clusterRoles, { name: 'cluster-admin' }).catch(codeOf)).toBe(403);
  }
  await expect(attempt(controllers)).rejects.toMatchObject({
    code: 403,
    message: expect.stringContaining("ValidatingAdmissionPolicy 'gatehouse-backstop-secrets'") as string,
  });
  expect(await cluster.admin.get(secrets, { namespace, name: 'loot' })).toBeUndefined();
});

const codeOf = (error: unknown): unknown => (error instanceof ApiError ? error.code : error);
