// suite: shared-plane, sandbox: long
/**
 * The test removes each permission of deploy/ in turn, for each account: the API server must then refuse a request that
 * this process makes. docs/reference/permissions.md names the request and the consequence. deploy-rbac.test.ts shows that the process
 * makes the request.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Rest } from '../../src/kube/rest.ts';
import { createNamespace, startCluster, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import {
  aggregated,
  permissionsOf,
  purposesIn,
  rolesBoundTo,
  roleWithout,
  type ExpectedRequest,
  type GrantingRole,
  type Permission,
  type Purpose,
} from '../support/grants.ts';
import { eventually } from '../support/processes.ts';

const ROOT = join(import.meta.dirname, '..', '..');
/** An administrator can grant less by leaving out folders. */
const FOLDERS = [
  'base',
  'components/delete-secrets',
  'components/openshift-compat',
  'components/cert-manager-compat',
  'components/distribute-bundles',
  'components/status-page',
  'components/policy-reports',
  'detectors/velero',
];
const RBAC = 'rbac.authorization.k8s.io';

/** Permissions of each account whose removal causes no refusal, each with the reason to keep it. */
const NOT_MISSED: Readonly<Record<string, Readonly<Record<Permission, string>>>> = {
  'gatehouse-webhook': {
    'create authorization.k8s.io/selfsubjectaccessreviews':
      'Kubernetes gives it to everybody (system:basic-user), which an administrator can take back',
  },
  'gatehouse-controllers': {
    'attest certificates.k8s.io/signers named gatehouse.dev/ca':
      'only the admission plugin of API servers that serve ClusterTrustBundles asks for it',
    'create authorization.k8s.io/selfsubjectaccessreviews':
      'Kubernetes gives it to everybody (system:basic-user), which an administrator can take back',
    'get admissionregistration.k8s.io/mutatingwebhookconfigurations named gatehouse':
      'status-page, if installed, grants it for every name',
    'get admissionregistration.k8s.io/validatingwebhookconfigurations named gatehouse':
      'status-page, if installed, grants it for every name',
  },
};

const ACCOUNTS = Object.keys(NOT_MISSED);
const manifests = FOLDERS.flatMap((folder) => readManifests(join(ROOT, 'deploy', folder)));
const page = readFileSync(join(ROOT, 'docs', 'reference', 'permissions.md'), 'utf8');

function grantsOf(account: string) {
  const bound = rolesBoundTo(account, manifests, SYSTEM_NAMESPACE).filter(({ rules }) => rules !== undefined);
  // Both accounts have what gatehouse-references aggregates; the page names it once, for the controllers.
  const roles = account === 'gatehouse-controllers' ? [...bound, ...aggregated(manifests)] : bound;
  return {
    roles,
    granted: roles.flatMap((role) => permissionsOf(role).map((permission) => ({ role, permission }))),
    purposes: new Map(purposesIn(page, account).map((one) => [one.permission, one])),
  };
}

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
  await createNamespace(cluster, SYSTEM_NAMESPACE);
});

afterAll(() => cluster.stop());

test.each(ACCOUNTS)(
  'no permission is granted twice to %s, and the page says for each of them what fails without it',
  (account) => {
    const { granted, purposes } = grantsOf(account);
    const all = granted.map(({ permission }) => permission);
    // Two parts may need the same permission, because each of them can be left out.
    const inPart = granted.map(({ role, permission }) => `${permission} of ${partOf(role) ?? 'all'}`);
    expect(inPart.filter((one, index) => inPart.indexOf(one) !== index)).toEqual([]);
    expect([...purposes.keys()].toSorted()).toEqual([...new Set(all)].toSorted());
  },
);

/** Creates a role, and its binding to a user or a group. */
async function grant(
  role: GrantingRole,
  subject: { readonly kind: 'User' | 'Group'; readonly name: string },
) {
  const { name = '', namespace } = role.metadata ?? {};
  const kind = role.kind ?? '';
  const binding: KubeObject & { readonly roleRef: object; readonly subjects: readonly object[] } = {
    apiVersion: `${RBAC}/v1`,
    kind: `${kind}Binding`,
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    roleRef: { apiGroup: RBAC, kind, name },
    subjects: [{ apiGroup: RBAC, ...subject }],
  };
  const folder = `/apis/${RBAC}/v1${namespace === undefined ? '' : `/namespaces/${namespace}`}`;
  for (const body of [role, binding])
    await cluster.adminRest.request({
      method: 'POST',
      path: `${folder}/${body.kind?.toLowerCase() ?? ''}s`,
      body: { ...body, apiVersion: `${RBAC}/v1` },
    });
}

const partOf = ({ metadata }: GrantingRole): string | undefined => metadata?.labels?.['gatehouse.dev/part'];

/** Whether every installation with the role has the other role, too: it belongs to the same part or to none. */
const isWith = (other: GrantingRole | undefined, role: GrantingRole): boolean => {
  const part = other && partOf(other);
  return part === undefined || part === partOf(role);
};

const groupOf = ({ kind, metadata }: GrantingRole): string => `all-of-${kind}-${metadata?.name ?? ''}`;

/**
 * The authorizer's decision on a request. The request changes nothing: an authorized one is a dry run with an invalid
 * object.
 */
async function ask(rest: Rest, request: ExpectedRequest): Promise<'refused' | 'allowed'> {
  try {
    await send(rest, request);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === 403 && error.message.includes(' cannot ')) return 'refused';
  }
  return 'allowed';
}

async function send(rest: Rest, request: ExpectedRequest): Promise<void> {
  const { method } = request;
  const [path = '', fieldSelector] = request.path
    .replace('{namespace}', 'default') // Roles grant more in the namespace of Gatehouse
    .replace('{name}', 'some')
    .replace('{version}', 'v1')
    .split('?fieldSelector=');
  switch (method) {
    case 'GET':
      await rest.request({ method, path, query: { limit: 1, fieldSelector } });
      return;
    case 'WATCH': {
      const query = { watch: true, timeoutSeconds: 1, fieldSelector };
      for await (const _line of rest.stream({ path, query })) return;
      return;
    }
    case 'POST':
    case 'PUT':
    case 'PATCH':
    case 'DELETE': {
      const contentType = method === 'PATCH' ? 'application/merge-patch+json' : undefined;
      await rest.request({ method, path, query: { dryRun: 'All' }, body: {}, contentType });
    }
  }
}

interface Taken {
  readonly role: GrantingRole;
  readonly permission: Permission;
  readonly purpose: Purpose;
  /** A client that lacks only this permission. */
  readonly rest: Rest;
}

test.each(ACCOUNTS)(
  'without one permission of %s, the API server refuses the request that the page names for it, even with all other permissions',
  async (account) => {
    const { roles, granted, purposes } = grantsOf(account);
    const groups = roles.map((role) => `${account} ${groupOf(role)}`);
    for (const [index, role] of roles.entries()) {
      const copy = { ...role, metadata: { ...role.metadata, name: `all-of-${account}-${index}` } };
      await grant(copy, { kind: 'Group', name: groups[index] ?? '' });
    }
    const whole = cluster.adminRest.impersonate({ user: 'whole', groups });

    const taken: Taken[] = [];
    for (const [index, { role, permission }] of granted.entries()) {
      const purpose = purposes.get(permission);
      if (purpose === undefined) continue; // the previous test reports it
      const user = `${account}-without-${index}`;
      await grant(roleWithout(role, permission, user), { kind: 'User', name: user });
      const rest = cluster.adminRest.impersonate({
        user,
        groups: groups.filter((_group, at) => roles[at] !== role && isWith(roles[at], role)),
      });
      taken.push({ role, permission, purpose, rest });
    }

    const rows = await Promise.all(
      taken.map(async ({ permission, purpose, rest, role }, index) => {
        await eventually(`a role without "${permission}" is in force`, async () => {
          const sibling = taken.find((one, at) => at !== index && one.role === role);
          return sibling === undefined || (await ask(rest, sibling.purpose.request)) === 'allowed';
        });
        return {
          permission,
          request: `${purpose.request.method} ${purpose.request.path}`,
          breaks: purpose.breaks,
          withAll: await ask(whole, purpose.request),
          withoutIt: await ask(rest, purpose.request),
        };
      }),
    );
    console.log(
      rows
        .map(({ permission, request, breaks }) => `${permission}\n    ${request}\n    ${breaks}`)
        .join('\n'),
    );
    expect(rows.filter(({ withAll }) => withAll !== 'allowed')).toEqual([]);
    const notMissed = rows.filter(({ withoutIt }) => withoutIt !== 'refused');
    expect(notMissed.map(({ permission }) => permission).toSorted()).toEqual(
      Object.keys(NOT_MISSED[account] ?? {}).toSorted(),
    );
    expect(rows.length).toBe(granted.length);
  },
);
