// suite: shared-plane, sandbox: yes
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
import { startClusterFor, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { eventually, freePort } from '../support/processes.ts';
import { serviceAccounts } from '../support/status-viewers.ts';

let cluster: Cluster;
let webhook: Rest;
let controllers: Rest;

const asUser = ({ name, groups }: (typeof USERS)[keyof typeof USERS]): Rest =>
  cluster.adminRest.impersonate({ user: name, groups: [...groups, 'system:authenticated'] });

beforeAll(async () => {
  cluster = await startClusterFor(await freePort(), { controllers: ['clusterrole-aggregation'] });
  webhook = asUser(USERS.webhook);
  controllers = asUser(USERS.controllers);
  // What the test expects to be refused must not be refused because the bindings are not in force yet.
  await eventually(
    'the roles are in force',
    async () =>
      (await ask(webhook, 'list', { path: '/apis/gatehouse.dev/v1alpha1/admissionpolicies' })) === 'allowed',
  );
});

afterAll(async () => {
  await cluster.stop();
});

interface Kind {
  /** `apps/deployments/scale`, `core/pods`. */
  readonly name: string;
  /** Of the collection, in the namespace of Gatehouse. */
  readonly path: string;
  readonly verbs: readonly string[];
}

interface ResourceList {
  readonly resources: readonly {
    readonly name: string;
    readonly namespaced: boolean;
    readonly verbs: readonly string[];
  }[];
}

/** Every resource and subresource in every served version. */
async function kindsOf(rest: Rest): Promise<readonly Kind[]> {
  const { groups } = await rest.request<{
    readonly groups: readonly { readonly versions: readonly { readonly groupVersion: string }[] }[];
  }>({ method: 'GET', path: '/apis' });
  const versions = groups.flatMap((group) => group.versions.map(({ groupVersion }) => groupVersion));
  const lists = await mapConcurrent(['v1', ...versions], 8, async (version) => {
    const root = version === 'v1' ? '/api/v1' : `/apis/${version}`;
    const { resources } = await rest.request<ResourceList>({ method: 'GET', path: root });
    const group = version === 'v1' ? 'core' : (version.split('/')[0] ?? '');
    return resources.map(({ name, namespaced, verbs }) => {
      const [resource = '', sub] = name.split('/');
      const place = namespaced ? `/namespaces/${SYSTEM_NAMESPACE}` : '';
      return {
        name: `${group}/${name}`,
        path: `${root}${place}/${resource}${sub === undefined ? '' : `/some/${sub}`}`,
        verbs,
      };
    });
  });
  return lists.flat();
}

const METHODS = {
  get: 'GET',
  list: 'GET',
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
} as const;
type Verb = keyof typeof METHODS;
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

const pathOf = (verb: Verb, { name, path }: Kind): string =>
  verb === 'list' || verb === 'create' || verb === 'deletecollection' || name.split('/').length > 2
    ? path
    : `${path}/some`;

/** What the account may do: `create gatehouse.dev/uniqueclaims`. */
async function allowed(
  rest: Rest,
  verbs: readonly Verb[],
  kinds: readonly Kind[],
): Promise<readonly string[]> {
  const tries = kinds.flatMap((kind) => verbs.map((verb) => ({ kind, verb })));
  const found = await mapConcurrent(tries, 8, async ({ kind, verb }) =>
    (await ask(rest, verb, { path: pathOf(verb, kind) })) === 'allowed' ? [`${verb} ${kind.name}`] : [],
  );
  return [...new Set(found.flat())].toSorted();
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
  const others = await allowed(controllers, ['create', 'update'], kinds);
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

test('the account lists only the kinds that admission needs', async () => {
  const kinds = (await kindsOf(cluster.adminRest)).filter(
    ({ name, verbs }) => verbs.includes('list') && name.split('/').length === 2,
  );
  expect(await allowed(webhook, ['list'], kinds)).toEqual([
    'list apiextensions.k8s.io/customresourcedefinitions',
    'list gatehouse.dev/admissionpolicies',
    'list gatehouse.dev/conversionpolicies',
    'list gatehouse.dev/restoredetectors',
    'list gatehouse.dev/restorewindows',
  ]);
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

test('the account cannot create a token for the account of an administrator', async () => {
  const namespace = 'kube-system';
  const name = 'root';
  await cluster.admin.create(serviceAccounts, { metadata: { namespace, name } });
  const token = {
    metadata: { namespace, name: 'loot', annotations: { 'kubernetes.io/service-account.name': name } },
    type: 'kubernetes.io/service-account-token',
  };
  const attempt = createClient(webhook).create<typeof token & KubeObject>(secrets, token);
  await expect(attempt).rejects.toMatchObject({ code: 403 });
  expect(await cluster.admin.get(secrets, { namespace, name: 'loot' })).toBeUndefined();
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  expect(await ask(webhook, 'create', { path })).toBe('refused');
  expect(await createClient(webhook).get(clusterRoles, { name: 'cluster-admin' }).catch(codeOf)).toBe(403);
});

const codeOf = (error: unknown): unknown => (error instanceof ApiError ? error.code : error);
