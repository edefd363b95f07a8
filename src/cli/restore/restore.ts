/** `gatehouse restore`: opens, closes, shows and approves windows, as the user of the kubeconfig. */
import { ApiError } from '../../kube/api-error.ts';
import { messageWithCauses } from '../../json/error-message.ts';
import { withCluster, type UserCluster } from '../connect.ts';
import type { ClusterFlags, OutputFormat } from '../terminal/options.ts';
import { approveWindow, closeWindow, openWindow } from './change-window.ts';
import { newWindow, readTimeout, WrongUsage, type OpenFlags } from './new-window.ts';
import { showFinalReport, showStatus, type ExitCode } from './window-status.ts';

export interface WaitFlags extends ClusterFlags {
  readonly wait?: boolean;
  /** A duration. */
  readonly timeout: string;
}

export interface StatusFlags extends WaitFlags {
  readonly output: OutputFormat;
  readonly watch?: boolean;
}

export type RestoreCommand =
  | { readonly kind: 'open'; readonly name: string | undefined; readonly flags: WaitFlags & OpenFlags }
  | { readonly kind: 'close'; readonly name: string; readonly flags: WaitFlags }
  | { readonly kind: 'approve'; readonly name: string; readonly flags: ClusterFlags }
  | { readonly kind: 'status'; readonly name: string | undefined; readonly flags: StatusFlags };

/** Prints the result, or the error with a hint. */
export const restore = (command: RestoreCommand): Promise<ExitCode> =>
  explained(command.kind, 1, async () => {
    checkUsage(command);
    return await withCluster(command.flags, 'restore', (cluster) => run(command, cluster));
  });

/**
 * Prints an error with a hint. Wrong usage ends with exit code 2.
 *
 * @param failed the exit code of all other errors
 */
export async function explained(
  name: string,
  failed: 1 | 2,
  work: () => Promise<ExitCode>,
): Promise<ExitCode> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof WrongUsage) {
      console.error(`error: ${error.message.replaceAll('\n', '; ')}`);
      console.error(`See gatehouse restore ${name} --help`);
      return 2;
    }
    for (const line of messageWithCauses(error).split('\n')) console.error(`error: ${line}`);
    const hint = hintFor(error);
    if (hint !== undefined) console.error(`hint: ${hint}`);
    return failed;
  }
}

/** Finds usage errors before it connects to the cluster. @throws WrongUsage */
function checkUsage(command: RestoreCommand): void {
  if (command.kind === 'approve') return;
  readTimeout(command.flags.timeout);
  if (command.kind === 'status' && command.flags.watch === true && command.name === undefined)
    throw new WrongUsage('--watch needs the name of a window: gatehouse restore status <name> --watch');
  if (command.kind === 'open') newWindow(command.name, command.flags, new Date());
}

async function run(command: RestoreCommand, cluster: UserCluster): Promise<ExitCode> {
  switch (command.kind) {
    case 'open': {
      const { wait = true, timeout } = command.flags;
      const window = newWindow(command.name, command.flags, cluster.now());
      return await openWindow(cluster, window, wait ? timeout : undefined);
    }
    case 'close': {
      const { wait = false, timeout } = command.flags;
      return await closeWindow(cluster, command.name, wait ? timeout : undefined);
    }
    case 'approve':
      return await approveWindow(cluster, command.name);
    case 'status': {
      const { output, timeout, watch } = command.flags;
      return watch === true && command.name !== undefined
        ? await showFinalReport(cluster, command.name, { timeout, format: output })
        : await showStatus(cluster, command.name, output);
    }
  }
}

const VERBS: Readonly<Record<string, string>> = { GET: 'get" and "list', POST: 'create', PATCH: 'patch' };

/** What to do about an error of the API server; undefined when its message says so already. */
export function hintFor(error: unknown): string | undefined {
  const refusal = apiErrorIn(error);
  if (refusal === undefined) return undefined;
  const { code, reason, message, request } = refusal;
  if (message.includes('failed calling webhook'))
    return 'Gatehouse does not respond, so no window can be opened or changed: check its pods (namespace gatehouse-system by default)';
  if (reason === 'AlreadyExists') return 'choose another name: a window cannot be opened again';
  if (code === 403 && !message.includes('admission webhook'))
    return `ask for the verb "${VERBS[request.method] ?? 'get'}" on ${resourceOf(request.path)}`;
  if (code === 404 && request.path.endsWith('/restorewindows'))
    return 'this cluster has no RestoreWindows: install Gatehouse (kubectl apply -k deploy), or choose another --context';
  return undefined;
}

/** `restorewindows.gatehouse.dev` for `/apis/gatehouse.dev/v1alpha1/restorewindows/drill`; other paths as they are. */
const resourceOf = (path: string): string =>
  path.replace(
    /^\/apis\/([^/]+)\/[^/]+\/([^/]+).*$/,
    (_path, group: string, resource: string) => `${resource}.${group}`,
  );

function apiErrorIn(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  return error instanceof Error && error.cause !== undefined ? apiErrorIn(error.cause) : undefined;
}
