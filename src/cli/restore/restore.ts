/** `gatehouse restore open`, `close`, `approve` and `status`, as the user of the kubeconfig. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { RestoreReport } from '../../api/restore-findings.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { messageWithCauses } from '../../json/abort.ts';
import { ApiError, isNotFound } from '../../kube/api-error.ts';
import { RESTORE_REPORTS, RESTORE_WINDOWS } from '../../runtime/resources.ts';
import { withCluster, type UserCluster } from '../connect.ts';
import { APPLY_MANIFESTS } from '../deploy-manifests.ts';
import type { ClusterFlags, OutputFormat } from '../terminal/options.ts';
import { print } from '../terminal/output.ts';
import { withProgress, type Progress } from '../terminal/progress.ts';
import { newWindow, readTimeout, WrongUsage, type OpenFlags } from './new-window.ts';
import { describeDeferral, detailsOf, formatDetails, formatList } from './window-report.ts';

export type ExitCode = 0 | 1 | 2;

export interface WaitFlags extends ClusterFlags {
  readonly wait?: boolean;
  readonly timeout: string;
}

export interface StatusFlags extends ClusterFlags {
  readonly timeout: string;
  readonly output: OutputFormat;
  readonly watch?: boolean;
}

export async function openWindow(name: string | undefined, flags: WaitFlags & OpenFlags): Promise<ExitCode> {
  const { wait = true, timeout } = flags;
  const timeoutMs = readTimeout(timeout);
  newWindow(name, flags, new Date()); // finds wrong usage before it connects
  return await withCluster(flags, 'restore', async (cluster) => {
    const wanted = newWindow(name, flags, cluster.now());
    const label = wanted.metadata.name ?? '';
    const created = await named('open', label, cluster.client.create(RESTORE_WINDOWS, wanted));
    if (!wait) return await done(describeOpening(created, 'is created'));
    const isDecided = (window: RestoreWindow) => isOpen(window) || whyNotOpen(window) !== undefined;
    const window = await awaitWindow(cluster, label, isDecided, timeoutMs);
    if (window === undefined)
      return failed(
        `RestoreWindow "${label}" is created, but no leader of Gatehouse has opened it within ${timeout}: check the pods ` +
          'of Gatehouse (namespace gatehouse-system by default). Without a leader, no check is deferred and no object is swept',
      );
    return isOpen(window)
      ? await done(describeOpening(window, 'is open'))
      : failed(`RestoreWindow "${label}" is not open: ${whyNotOpen(window) ?? ''}`);
  });
}

async function done(text: string): Promise<ExitCode> {
  await print(`${text}\n`);
  return 0;
}

function failed(message: string): ExitCode {
  console.error(`error: ${message}`);
  return 1;
}

const isOpen = ({ status }: RestoreWindow): boolean => status?.phase === 'Open';

function whyNotOpen({ status }: RestoreWindow): string | undefined {
  const condition = status?.conditions?.find(({ type }) => type === 'Open');
  if (condition?.status === 'False') return condition.message;
  return status?.closedAt === undefined
    ? undefined
    : `it is already closed (${status.closeReason ?? 'Manual'})`;
}

function describeOpening(window: RestoreWindow, what: string): string {
  const details = detailsOf(window, []);
  return [
    `RestoreWindow "${details.name}" ${what}, until ${details.expiresAt}.`,
    `  defers  ${describeDeferral(details) ?? 'nothing'}; all other requests are checked as usual`,
    `  close   gatehouse restore close ${details.name} --wait`,
  ].join('\n');
}

export async function closeWindow(name: string, flags: WaitFlags): Promise<ExitCode> {
  const { wait = false, timeout } = flags;
  readTimeout(timeout);
  return await withCluster(flags, 'restore', async (cluster) => {
    const before = await readWindow(cluster, name);
    if (before.spec.close !== true && before.status?.closedAt === undefined)
      await patch(cluster, name, { close: true }, 'close');
    const sentence = describeClosing(before);
    if (!wait) return await done(`${sentence}\n  report  gatehouse restore status ${name}`);
    console.error(`${sentence} Waiting for the final sweep.`);
    return await showFinalReport(cluster, name, timeout, 'table');
  });
}

export function describeClosing({ metadata, spec, status }: RestoreWindow): string {
  const label = `RestoreWindow "${metadata.name ?? ''}"`;
  if (status?.closedAt !== undefined)
    return `${label} was closed at ${status.closedAt} (${status.closeReason ?? 'Manual'}).`;
  return spec.close === true
    ? `${label} is already closing.`
    : `${label} is closed: all checks are enforced again.`;
}

export const approveWindow = (name: string, flags: ClusterFlags): Promise<ExitCode> =>
  withCluster(flags, 'restore', async (cluster) => {
    const window = await readWindow(cluster, name);
    const obstacle = whyNothingToApprove(window);
    if (obstacle !== undefined) throw new Error(`RestoreWindow "${name}" cannot be approved: ${obstacle}`);
    if (window.spec.sweep?.approved !== true)
      await patch(cluster, name, { sweep: { approved: true } }, 'approve the links of');
    return await done(
      `The owner references that RestoreWindow "${name}" lists are approved. The next sweep links them.\n` +
        `  report  gatehouse restore status ${name}`,
    );
  });

function whyNothingToApprove({ spec }: RestoreWindow): string | undefined {
  const { relinkOwners = 'Link', requireApprovalToLink = false } = spec.sweep ?? {};
  if (relinkOwners !== 'Link')
    return `spec.sweep.relinkOwners is ${relinkOwners}, so it links no owners; the field is immutable`;
  return requireApprovalToLink ? undefined : 'it links lost owners without approval';
}

const patch = ({ client }: UserCluster, name: string, spec: object, what: string): Promise<unknown> =>
  named(what, name, client.patchMerge<RestoreWindow>(RESTORE_WINDOWS, { name }, { spec }));

async function named<T>(what: string, name: string, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    throw new Error(`could not ${what} RestoreWindow "${name}"`, { cause });
  }
}

export async function showStatus(name: string | undefined, flags: StatusFlags): Promise<ExitCode> {
  const { output, timeout, watch = false } = flags;
  readTimeout(timeout);
  if (watch && name === undefined)
    throw new WrongUsage('--watch needs the name of a window: gatehouse restore status <name> --watch');
  return await withCluster(flags, 'restore', async (cluster) => {
    if (name === undefined) {
      const { items } = await cluster.client.listAll<RestoreWindow>(RESTORE_WINDOWS);
      await print(formatList(items, output));
      return 0;
    }
    if (watch) return await showFinalReport(cluster, name, timeout, output);
    await showWindow(cluster, await readWindow(cluster, name), output);
    return 0;
  });
}

type Reader = Pick<UserCluster, 'client'>;

async function readWindow({ client }: Reader, name: string): Promise<RestoreWindow> {
  const window = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name });
  if (window === undefined)
    throw new Error(`RestoreWindow "${name}" does not exist: gatehouse restore status lists all windows`);
  return window;
}

const POLL_INTERVAL_MS = 500;

/** Polls a window until `accept` returns true; undefined on timeout. @throws when the window is deleted */
async function awaitWindow(
  cluster: Reader,
  name: string,
  accept: (window: RestoreWindow) => boolean,
  timeoutMs: number,
  onPoll: (window: RestoreWindow) => void = () => undefined,
): Promise<RestoreWindow | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const window = await readWindow(cluster, name);
    if (accept(window)) return window;
    onPoll(window);
    if (performance.now() + POLL_INTERVAL_MS > deadline) return undefined;
    await sleep(POLL_INTERVAL_MS);
  }
}

async function showWindow(cluster: Reader, window: RestoreWindow, format: OutputFormat): Promise<void> {
  const reports = await reportsOf(cluster, window.metadata.name ?? '');
  await print(formatDetails(detailsOf(window, reports), format));
}

/** Without its RestoreReports, a window still shows its first violations. */
async function reportsOf({ client }: Reader, window: string): Promise<readonly RestoreReport[]> {
  try {
    const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS);
    return items.filter(({ spec }) => spec.window === window);
  } catch (error) {
    if (!isNotFound(error))
      console.error(`note: could not read the RestoreReports: ${messageWithCauses(error)}`);
    return [];
  }
}

async function showFinalReport(
  cluster: Reader,
  name: string,
  timeout: string,
  format: OutputFormat,
): Promise<ExitCode> {
  const final = await withProgress((line) =>
    awaitWindow(cluster, name, isFinal, readTimeout(timeout), (window) => {
      const progress = progressOf(window);
      if (progress === undefined) line.clear();
      else line.show(progress);
    }),
  );
  await showWindow(cluster, final ?? (await readWindow(cluster, name)), format);
  if (final !== undefined) return exitCodeOf(final);
  return failed(
    `no final report within ${timeout}. Run gatehouse restore status ${name} again later, and check the pods of ` +
      'Gatehouse (namespace gatehouse-system by default)',
  );
}

export function exitCodeOf({ status }: RestoreWindow): ExitCode {
  if (status?.phase === 'Completed') return 0;
  return status?.violations?.total === undefined ? 2 : 1;
}

/** The interim sweep does not count: admitted writes may still arrive after it. */
export function isFinal({ status }: RestoreWindow): boolean {
  const { phase, lastSweep } = status ?? {};
  return (phase === 'Completed' || phase === 'CompletedWithViolations') && lastSweep?.interim === false;
}

function progressOf({ status }: RestoreWindow): Progress | undefined {
  if (status?.currentSweep === undefined) return undefined;
  const { objectsScanned, objectsTotal, resource } = status.currentSweep;
  return { what: resource, done: objectsScanned, total: objectsTotal };
}

/** Prints an error with a hint. Wrong usage ends with exit code 2, all other errors with `exitCode`. */
export async function explained(
  name: string,
  exitCode: 1 | 2,
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
    return exitCode;
  }
}

const VERBS: Readonly<Record<string, string>> = { GET: 'get" and "list', POST: 'create', PATCH: 'patch' };

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
    return `this cluster does not serve RestoreWindows: install Gatehouse (${APPLY_MANIFESTS}), or choose another --context`;
  return undefined;
}

const resourceOf = (path: string): string =>
  path.replace(
    /^\/apis\/([^/]+)\/[^/]+\/([^/]+).*$/,
    (_path, group: string, resource: string) => `${resource}.${group}`,
  );

function apiErrorIn(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  return error instanceof Error && error.cause !== undefined ? apiErrorIn(error.cause) : undefined;
}
