/** Reads kubeconfig files, mostly with client-node. Import it only if such a file exists, because client-node is large. */
import { readFileSync } from 'node:fs';
import type { RequestOptions } from 'node:https';
import { dirname, resolve } from 'node:path';
import { KubeConfig, loadYaml } from '@kubernetes/client-node';
import type { ClusterAccess, Impersonation } from './credentials.ts';
import { isJsonObject } from '../../json/json.ts';

/** Like kubectl, prefers the first of two entries with the same name. @throws before credentials go over plain HTTP */
export function readKubeconfig(files: readonly string[], contextName: string | undefined): ClusterAccess {
  const loaded = files.map(loadFile);
  const where = files.join(', ');
  const wanted = contextName ?? loaded.map((file) => file.kubeConfig.currentContext).find(isNotEmpty);
  if (wanted === undefined)
    throw new Error(`${where}: current-context is not set: choose one with --context`);

  const context = loaded.flatMap((file) => file.kubeConfig.contexts).find(({ name }) => name === wanted);
  if (context === undefined) {
    const names = loaded.flatMap((file) => file.kubeConfig.contexts.map(({ name }) => name));
    throw new Error(`${where}: context "${wanted}" not found; it has: ${names.join(', ') || 'none'}`);
  }
  const cluster = loaded
    .flatMap((file) => file.kubeConfig.clusters)
    .find(({ name }) => name === context.cluster);
  if (cluster === undefined)
    throw new Error(`${where}: cluster "${context.cluster}" of context "${wanted}" not found`);
  const owner = loaded.find((file) => file.kubeConfig.users.some(({ name }) => name === context.user));
  const user = owner?.kubeConfig.users.find(({ name }) => name === context.user);
  const raw = owner?.rawUsers.get(context.user) ?? {};
  if (cluster.server.startsWith('http:') && hasSecrets(raw))
    throw new Error(`${where}: credentials would go to ${cluster.server} unencrypted: use https`);

  const kubeConfig = new KubeConfig();
  // Without a user, client-node would also drop the CA of the cluster.
  kubeConfig.loadFromClusterAndUser(cluster, user ?? { name: 'anonymous' });
  const tokenFile = raw.tokenFile;
  return {
    server: cluster.server,
    namespace: context.namespace,
    proxyUrl: cluster.proxyUrl,
    tokenFilePath:
      typeof tokenFile === 'string' && owner !== undefined ? resolve(owner.dir, tokenFile) : undefined,
    impersonation: impersonationOf(raw),
    requestOptions: async () => {
      const options: RequestOptions = {};
      // client-node rejects plain HTTP. The check above ensures that no credentials leak over it.
      if (cluster.server.startsWith('https:')) await kubeConfig.applyToHTTPSOptions(options);
      return options;
    },
  };
}

function loadFile(file: string) {
  try {
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromFile(file);
    refuseOtherThanTexts(kubeConfig);
    const document: unknown = loadYaml(readFileSync(file, 'utf8'));
    const users: unknown = isJsonObject(document) ? document.users : undefined;
    const rawUsers = new Map<string, Readonly<Record<string, unknown>>>();
    for (const entry of Array.isArray(users) ? users : []) {
      if (isJsonObject(entry) && typeof entry.name === 'string' && isJsonObject(entry.user))
        rawUsers.set(entry.name, entry.user);
    }
    return { dir: dirname(resolve(file)), kubeConfig, rawUsers };
  } catch (cause) {
    throw new Error(`could not load the kubeconfig ${file}`, { cause });
  }
}

/** client-node does not validate types, and a YAML value may be something other than a string. */
function refuseOtherThanTexts({ currentContext, contexts, clusters, users }: KubeConfig): void {
  const found: readonly (readonly [what: string, value: unknown])[] = [
    ['current-context', currentContext],
    ...contexts.flatMap(({ name, cluster, user, namespace }) => [
      ['the name of a context', name] as const,
      ['the cluster of a context', cluster] as const,
      ['the user of a context', user] as const,
      ['the namespace of a context', namespace] as const,
    ]),
    ...clusters.flatMap(({ name, server, proxyUrl }) => [
      ['the name of a cluster', name] as const,
      ['the server of a cluster', server] as const,
      ['the proxy-url of a cluster', proxyUrl] as const,
    ]),
    ...users.map(({ name }) => ['the name of a user', name] as const),
  ];
  for (const [what, value] of found)
    if (value !== undefined && value !== null && typeof value !== 'string')
      throw new Error(`${what} is not a string: put it in quotes`);
}

/** client-node supports only `as`: read groups, uid and extra from the file. */
function impersonationOf(user: Readonly<Record<string, unknown>>): Impersonation | undefined {
  const { as } = user;
  if (typeof as !== 'string' || as === '') return undefined;
  const uid = user['as-uid'];
  const extra = user['as-user-extra'];
  return {
    user: as,
    groups: strings(user['as-groups']),
    uid: typeof uid === 'string' ? uid : undefined,
    extra: isJsonObject(extra)
      ? Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, strings(values)]))
      : undefined,
  };
}

const hasSecrets = (user: Readonly<Record<string, unknown>>): boolean =>
  ['token', 'tokenFile', 'username', 'exec', 'auth-provider'].some((key) => user[key] !== undefined);

const strings = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];

const isNotEmpty = (text: string | undefined): text is string => text !== undefined && text !== '';
