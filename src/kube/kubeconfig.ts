import { existsSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { KubeConfig, loadYaml } from '@kubernetes/client-node';
import type { Impersonation } from './impersonation.ts';
import { isRecord } from './object.ts';

export interface KubeconfigOptions {
  /** A kubeconfig file. Without it: $KUBECONFIG, the service account of the pod, ~/.kube/config, in this order. */
  readonly kubeconfig?: string | undefined;
  /** Instead of the current context of the file. */
  readonly context?: string | undefined;
  /** Reads KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. Default: of this process. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Where the kubelet mounts the service account. */
  readonly serviceAccountDir?: string;
}

/** A KubeConfig with one cluster and one user, and what client-node leaves out when it reads the file. */
export interface LoadedKubeconfig {
  readonly kubeConfig: KubeConfig;
  readonly server: string;
  readonly namespace: string | undefined;
  readonly proxyUrl: string | undefined;
  readonly tokenFilePath: string | undefined;
  readonly impersonation: Impersonation | undefined;
}

const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';

/** @throws when there is no usable configuration; the message says where it was looked for. */
export function loadKubeconfig(options: KubeconfigOptions = {}): LoadedKubeconfig {
  const environment = options.environment ?? process.env;
  const serviceAccountDir = options.serviceAccountDir ?? SERVICE_ACCOUNT_DIR;
  if (options.kubeconfig !== undefined) return fromFiles([options.kubeconfig], options.context);

  const listed = (environment.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '');
  if (listed.length > 0) {
    // As kubectl: a list may name files that do not exist.
    const existing = listed.filter((file) => existsSync(file));
    if (existing.length === 0) throw new Error(`KUBECONFIG names no existing file: ${listed.join(', ')}`);
    return fromFiles(existing, options.context);
  }

  const host = environment.KUBERNETES_SERVICE_HOST;
  if (host !== undefined && existsSync(join(serviceAccountDir, 'token'))) {
    return fromServiceAccount(host, environment.KUBERNETES_SERVICE_PORT ?? '443', serviceAccountDir);
  }

  const home = join(environment.HOME ?? '/', '.kube', 'config');
  if (existsSync(home)) return fromFiles([home], options.context);
  throw new Error(
    `found no cluster: set KUBECONFIG, or write ${home}, or run in a pod with a service account token`,
  );
}

function fromServiceAccount(host: string, port: string, dir: string): LoadedKubeconfig {
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromClusterAndUser(
    { name: 'in-cluster', server, caFile: join(dir, 'ca.crt'), skipTLSVerify: false },
    { name: 'service-account' },
  );
  const namespaceFile = join(dir, 'namespace');
  return {
    kubeConfig,
    server,
    namespace: existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : undefined,
    proxyUrl: undefined,
    tokenFilePath: join(dir, 'token'),
    impersonation: undefined,
  };
}

function fromFiles(files: readonly string[], contextName: string | undefined): LoadedKubeconfig {
  const loaded = files.map(loadFile);
  const where = files.join(', ');
  const wanted = contextName ?? loaded.map((file) => file.kubeConfig.currentContext).find(isNotEmpty);
  if (wanted === undefined) throw new Error(`${where} has no current-context: name one with --context`);

  // The first file that has a name wins, as with kubectl.
  const context = loaded.flatMap((file) => file.kubeConfig.contexts).find(({ name }) => name === wanted);
  if (context === undefined) {
    const names = loaded.flatMap((file) => file.kubeConfig.contexts.map(({ name }) => name));
    throw new Error(`${where} has no context "${wanted}"; it has: ${names.join(', ') || 'none'}`);
  }
  const cluster = loaded
    .flatMap((file) => file.kubeConfig.clusters)
    .find(({ name }) => name === context.cluster);
  if (cluster === undefined) {
    throw new Error(
      `${where}: context "${wanted}" names the cluster "${context.cluster}", which is not there`,
    );
  }
  const owner = loaded.find((file) => file.kubeConfig.users.some(({ name }) => name === context.user));
  const user = owner?.kubeConfig.users.find(({ name }) => name === context.user);
  const raw = owner?.rawUsers.get(context.user) ?? {};
  if (cluster.server.startsWith('http:') && hasSecrets(raw)) {
    throw new Error(`${where}: credentials would go to ${cluster.server} in the clear: use https`);
  }

  const kubeConfig = new KubeConfig();
  // Without any user client-node would also forget the CA of the cluster.
  kubeConfig.loadFromClusterAndUser(cluster, user ?? { name: 'anonymous' });
  const tokenFile = raw.tokenFile;
  return {
    kubeConfig,
    server: cluster.server,
    namespace: context.namespace,
    proxyUrl: cluster.proxyUrl,
    tokenFilePath:
      typeof tokenFile === 'string' && owner !== undefined ? resolve(owner.dir, tokenFile) : undefined,
    impersonation: impersonationOf(raw),
  };
}

interface KubeconfigFile {
  readonly dir: string;
  readonly kubeConfig: KubeConfig;
  readonly rawUsers: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
}

function loadFile(file: string): KubeconfigFile {
  try {
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromFile(file);
    const document: unknown = loadYaml(readFileSync(file, 'utf8'));
    const users: unknown = isRecord(document) ? document.users : undefined;
    const rawUsers = new Map<string, Readonly<Record<string, unknown>>>();
    for (const entry of Array.isArray(users) ? users : []) {
      if (isRecord(entry) && typeof entry.name === 'string' && isRecord(entry.user)) {
        rawUsers.set(entry.name, entry.user);
      }
    }
    return { dir: dirname(resolve(file)), kubeConfig, rawUsers };
  } catch (cause) {
    throw new Error(`could not load the kubeconfig ${file}`, { cause });
  }
}

/** client-node knows `as` alone; groups, uid and extra are read from the file itself. */
function impersonationOf(user: Readonly<Record<string, unknown>>): Impersonation | undefined {
  const { as } = user;
  if (typeof as !== 'string' || as === '') return undefined;
  const uid = user['as-uid'];
  const extra = user['as-user-extra'];
  return {
    user: as,
    groups: strings(user['as-groups']),
    uid: typeof uid === 'string' ? uid : undefined,
    extra: isRecord(extra)
      ? Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, strings(values)]))
      : undefined,
  };
}

function hasSecrets(user: Readonly<Record<string, unknown>>): boolean {
  return ['token', 'tokenFile', 'username', 'exec', 'auth-provider'].some((key) => user[key] !== undefined);
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function isNotEmpty(text: string | undefined): text is string {
  return text !== undefined && text !== '';
}
