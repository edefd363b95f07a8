/** Users of a control plane, and their tokens. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The subject of a binding: all accounts of Gatehouse, in both arrangements. */
export const GATEHOUSE_GROUP = {
  apiGroup: 'rbac.authorization.k8s.io',
  kind: 'Group',
  name: 'system:serviceaccounts:gatehouse-system',
};

const account = (name: string) => ({
  name: `system:serviceaccount:gatehouse-system:${name}`,
  groups: ['system:serviceaccounts', GATEHOUSE_GROUP.name],
});

/** Users that can log in with a token. Groups are in addition to `system:authenticated`. */
export const USERS = {
  admin: { name: 'admin', groups: ['system:masters'] },
  gatehouse: account('gatehouse'),
  webhook: account('gatehouse-webhook'),
  controllers: account('gatehouse-controllers'),
  alice: { name: 'alice', groups: [] },
  controllerManager: { name: 'system:kube-controller-manager', groups: [] },
} as const satisfies Record<string, { name: string; groups: readonly string[] }>;

export type User = keyof typeof USERS;

const ALL: readonly User[] = ['admin', 'gatehouse', 'webhook', 'controllers', 'alice', 'controllerManager'];

export const isGatehouse = (username: string): boolean =>
  [USERS.gatehouse, USERS.webhook, USERS.controllers].some(({ name }) => name === username);

export type PerUser = Record<User, string>;

export const perUser = (valueFor: (user: User) => string): PerUser =>
  Object.fromEntries(ALL.map((user) => [user, valueFor(user)])) as PerUser; // ALL has every user

export function writeTokens(folder: string): PerUser {
  const tokens = perUser(() => randomBytes(16).toString('hex'));
  const lines = ALL.map(
    (user) => `${tokens[user]},${USERS[user].name},${user}-uid,"${USERS[user].groups.join(',')}"`,
  );
  writeFileSync(join(folder, 'tokens.csv'), `${lines.join('\n')}\n`);
  return tokens;
}

export function writeKubeconfigs(folder: string, server: string, ca: string, tokens: PerUser): PerUser {
  return perUser((user) => {
    const path = join(folder, `${user}.kubeconfig`);
    writeKubeconfig(path, server, ca, tokens[user]);
    return path;
  });
}

/** Kubeconfigs in a subfolder of the plane, for another address of its API server. */
export function kubeconfigsThrough(
  { folder, token }: { readonly folder: string; readonly token: (user: User) => string },
  name: string,
  { server, ca }: { readonly server: string; readonly ca: string },
): (user: User) => string {
  const own = join(folder, `through-${name}`);
  mkdirSync(own, { recursive: true });
  const paths = writeKubeconfigs(own, server, ca, perUser(token));
  return (user) => paths[user];
}

export function writeKubeconfig(path: string, server: string, ca: string, token: string): void {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [
      {
        name: 'test',
        cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') },
      },
    ],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  };
  writeFileSync(path, JSON.stringify(config, undefined, 2)); // JSON is YAML
}
