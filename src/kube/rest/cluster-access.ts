/** Finds the cluster to connect to and the user to authenticate as. */
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { ClusterAccess } from './credentials.ts';

export interface KubeconfigOptions {
  /** A kubeconfig file. Without it: $KUBECONFIG, the service account of the pod, ~/.kube/config, in this order. */
  readonly kubeconfig?: string | undefined;
  /** Default: the current context of the file. */
  readonly context?: string | undefined;
  /** Provides KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. Default: `process.env`. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Where the kubelet mounts the service account. */
  readonly serviceAccountDir?: string;
}

const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';

/** @throws when there is no usable configuration; the message lists the searched locations */
export async function findClusterAccess(options: KubeconfigOptions = {}): Promise<ClusterAccess> {
  const environment = options.environment ?? process.env;
  const serviceAccountDir = options.serviceAccountDir ?? SERVICE_ACCOUNT_DIR;
  const fromFiles = async (files: readonly string[]): Promise<ClusterAccess> => {
    // Imported on demand: it costs 80 MiB and half a second, and pods have no kubeconfig.
    const { readKubeconfig } = await import('./kubeconfig.ts');
    return readKubeconfig(files, options.context);
  };
  if (options.kubeconfig !== undefined) return await fromFiles([options.kubeconfig]);

  const listed = (environment.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '');
  if (listed.length > 0) {
    // As in kubectl, the list may contain files that do not exist.
    const existing = listed.filter((file) => existsSync(file));
    if (existing.length === 0) throw new Error(`KUBECONFIG names no existing file: ${listed.join(', ')}`);
    return await fromFiles(existing);
  }

  const host = environment.KUBERNETES_SERVICE_HOST;
  if (host !== undefined && existsSync(join(serviceAccountDir, 'token'))) {
    return serviceAccountAccess(host, environment.KUBERNETES_SERVICE_PORT ?? '443', serviceAccountDir);
  }

  const home = join(environment.HOME ?? '/', '.kube', 'config');
  if (existsSync(home)) return await fromFiles([home]);
  throw new Error(
    `found no cluster: set KUBECONFIG, or write ${home}, or run in a pod with a service account token`,
  );
}

function serviceAccountAccess(host: string, port: string, dir: string): ClusterAccess {
  const namespaceFile = join(dir, 'namespace');
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    namespace: existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : undefined,
    proxyUrl: undefined,
    tokenFilePath: join(dir, 'token'),
    impersonation: undefined,
    requestOptions: async () => ({ ca: await readFile(join(dir, 'ca.crt')) }),
  };
}
