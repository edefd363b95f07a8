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
import {
  CLUSTER_ROLE_BINDINGS,
  ROLES,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import type { GrantingRole } from '../support/grants.ts';
import { eventually, freePort } from '../support/processes.ts';
import { serviceAccounts } from '../support/status-viewers.ts';

let cluster: Cluster;

interface Account {
  readonly name: string;
  readonly groups: readonly string[];
}
const { webhook, controllers } = USERS;

beforeAll(async () => {
  cluster = await startClusterFor(await freePort());
  // What the test expects to be refused must not be refused because the bindings are not in force yet.
  await eventually('the roles are in force', () =>
    may(webhook, { verb: 'list', group: 'gatehouse.dev', resource: 'admissionpolicies' }),
  );
});

afterAll(() => cluster.stop());

interface Attributes {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string | undefined;
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
}

/** The decision of the API server's authorizer. */
async function may({ name: user, groups }: Account, resourceAttributes: Attributes): Promise<boolean> {
  interface Review extends KubeObject {
    readonly spec: object;
    readonly status?: { readonly allowed: boolean };
  }
  const { status } = await cluster.adminRest.request<Review>({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: { user, groups: [...groups, 'system:authenticated'], resourceAttributes },
    },
  });
  return status?.allowed === true;
}

interface Kind {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string | undefined;
  readonly namespaces: readonly (string | undefined)[];
  /** What to name in questions: roles can permit single objects. */
  readonly names: readonly (string | undefined)[];
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
  const named = await namesInRoles();
  const versions = groups.flatMap((group) => group.versions.map(({ groupVersion }) => groupVersion));
  const lists = await mapConcurrent(['v1', ...versions], 8, async (version) => {
    const root = version === 'v1' ? '/api/v1' : `/apis/${version}`;
    const { resources } = await rest.request<ResourceList>({ method: 'GET', path: root });
    const group = version === 'v1' ? '' : (version.split('/')[0] ?? '');
    return resources.map(({ name, namespaced, verbs }): Kind => {
      const [resource = '', subresource] = name.split('/');
      return {
        group,
        resource,
        subresource,
        verbs,
        namespaces: namespaced ? [SYSTEM_NAMESPACE, 'kube-system'] : [undefined],
        names: [undefined, ...(named.get(`${group}/${name}`) ?? [])],
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

const READS = ['get', 'list', 'watch'];
const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection'];

/** What the account may do: `create gatehouse.dev/uniqueclaims`. Names are left out if every name is permitted. */
async function allowed(
  account: Account,
  verbs: readonly string[],
  kinds: readonly Kind[],
): Promise<readonly string[]> {
  const tries = kinds.flatMap(({ group, resource, subresource, namespaces, names }) =>
    verbs.flatMap((verb) =>
      namespaces.flatMap((namespace) =>
        names.map((name) => ({ verb, group, resource, subresource, namespace, name })),
      ),
    ),
  );
  const found = await mapConcurrent(tries, 8, async (question) => {
    const { verb, group, resource, subresource, name } = question;
    const kind = `${group === '' ? 'core' : group}/${[resource, subresource].filter(Boolean).join('/')}`;
    const text = [verb, kind, ...(name === undefined ? [] : [name])].join(' ');
    return (await may(account, question)) ? [text] : [];
  });
  const all = new Set(found.flat());
  return [...all]
    .filter((one) => !all.has(one.split(' ').slice(0, 2).join(' ')) || one.split(' ').length === 2)
    .toSorted();
}

/** Reviews answer a question and store nothing. */
const REVIEW = /^create (authorization|authentication)\.k8s\.io\/\w+reviews$/;

test('the account can change nothing but UniqueClaims', async () => {
  const kinds = await kindsOf(cluster.adminRest);
  expect(kinds.length).toBeGreaterThan(45);
  const may = await allowed(webhook, WRITES, kinds);
  expect(may.filter((one) => !REVIEW.test(one))).toEqual([
    'create gatehouse.dev/uniqueclaims',
    'delete gatehouse.dev/uniqueclaims',
    'update gatehouse.dev/uniqueclaims',
  ]);
  // The test would notice more: the other account may do more.
  const ofSecrets = kinds.filter(({ group, resource }) => group === '' && resource === 'secrets');
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
  for (const [verb = '', group = '', resource = ''] of questions)
    expect(
      await may(webhook, { verb, group, resource, namespace: SYSTEM_NAMESPACE }),
      `${verb} ${resource}`,
    ).toBe(false);
});

test('the account reads only what admission needs', async () => {
  const kinds = (await kindsOf(cluster.adminRest)).filter(({ subresource }) => subresource === undefined);
  const readable = kinds.filter(({ verbs }) => READS.some((verb) => verbs.includes(verb)));
  // Kubernetes 1.37 lets every service account read ClusterTrustBundles.
  const groups = ['system:serviceaccounts', 'system:serviceaccounts:default'];
  const another = { name: 'system:serviceaccount:default:another', groups };
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
      // What a restored binding grants. It includes gatehouse-references.
      'get rbac.authorization.k8s.io/clusterroles',
      'get rbac.authorization.k8s.io/roles',
    ].toSorted(),
  );
});

test('neither account can create a token for the account of an administrator', async () => {
  const namespace = 'kube-system';
  const name = 'root';
  await cluster.admin.create(serviceAccounts, { metadata: { namespace, name } });
  const token = {
    metadata: { namespace, name: 'loot', annotations: { 'kubernetes.io/service-account.name': name } },
    type: 'kubernetes.io/service-account-token',
  };
  const restOf = ({ name: user, groups }: Account) =>
    createClient(cluster.adminRest.impersonate({ user, groups: [...groups, 'system:authenticated'] }));
  const attempt = (account: Account) => restOf(account).create<typeof token & KubeObject>(secrets, token);
  await expect(attempt(webhook)).rejects.toMatchObject({ code: 403 });
  expect(await cluster.admin.get(secrets, { namespace, name: 'loot' })).toBeUndefined();
  for (const account of [webhook, controllers]) {
    const tokens = { verb: 'create', group: '', resource: 'serviceaccounts', subresource: 'token' };
    expect(await may(account, { ...tokens, namespace, name })).toBe(false);
    expect(await restOf(account).get(CLUSTER_ROLE_BINDINGS, { name: 'cluster-admin' }).catch(codeOf)).toBe(
      403,
    );
  }
  await expect(attempt(controllers)).rejects.toMatchObject({
    code: 403,
    message: expect.stringContaining("ValidatingAdmissionPolicy 'gatehouse-backstop-secrets'") as string,
  });
  expect(await cluster.admin.get(secrets, { namespace, name: 'loot' })).toBeUndefined();
});

const codeOf = (error: unknown): unknown => (error instanceof ApiError ? error.code : error);
