/** `gatehouse restore rehearse`: what a restore of this backup would lose or break. */
import { basename } from 'node:path';

import { ownNamespace } from '../../../config/config.ts';
import { parseJson, textIn } from '../../../json/json.ts';
import { printable } from '../../../json/printable.ts';
import { NEVER, withCluster, type UserCluster } from '../../connect.ts';
import { isOwn } from '../../review/policies.ts';
import { hasColours, print, formatJson, formatTable, paint } from '../../terminal/output.ts';
import { withProgress } from '../../terminal/progress.ts';
import { newestBackup, type FoundBackup } from '../backup.ts';
import { dryRun, readEverything, readPolicies, readTarget, type ClusterObjects } from './cluster.ts';
import { isProblem, problemsFirst, type Finding } from './findings.ts';
import {
  checkSources,
  type RehearseFlags,
  readBackedUp,
  readGiven,
  toInput,
  type RehearsalInput,
} from './input.ts';
import { rehearseRestore, skippedLines, type Rehearsal } from './rehearsal.ts';
import { messageOf, messageWithCauses } from '../../../json/abort.ts';
import { createEventRecorder } from '../../../kube/events.ts';
import { canI } from '../../../kube/access.ts';
import { configMaps, subjectAccessReviews } from '../../../kube/well-known.ts';
import type { Guard } from '../../../restore/guard.ts';
import { createAccessReviews } from '../../../runtime/access-reviews.ts';
import { rightsOf } from '../../../runtime/webhooks/restore-guard.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import {
  noteOf,
  parseData,
  rehearsalResult,
  REHEARSAL_CONFIGMAP,
  toData,
} from '../../../restore/rehearsal-result.ts';
import { counted } from '../../../json/counted.ts';
import { formatJunit } from '../../review/report/junit.ts';
import { describeOutcome, isRestored, type Outcome } from './replay.ts';

/** @param path undefined with `--newest-in` or `--from-cluster` @returns 1 if there is a problem, 2 if a kind could not be read, or a name is not in the backup */
export async function rehearse(path: string | undefined, flags: RehearseFlags): Promise<0 | 1 | 2> {
  checkSources(path, flags);
  const { newest, rehearsal } = await rehearsed(path, flags).catch(async (error: unknown) => {
    await print(failure(flags.output, messageWithCauses(error)));
    throw error;
  });
  const { findings } = rehearsal;
  for (const note of rehearsal.notes) console.error(`note: ${printable(note)}`);
  await print({ table, json, junit }[flags.output](rehearsal));
  if (flags.record === true && newest !== undefined)
    await connected(flags, (cluster) => recordResult(cluster, ownNamespace(), newest, findings));
  if (findings.some(({ reason }) => reason === 'NotRead' || reason === 'NotInBackup')) return 2;
  return findings.some(isProblem) ? 1 : 0;
}

async function rehearsed(path: string | undefined, flags: RehearseFlags) {
  const newest = flags.newestIn === undefined ? undefined : newestBackup(flags.newestIn);
  const file = newest?.path ?? path;
  const backup = file === undefined ? await connected(flags, readEverything) : await readBackedUp(file);
  return { newest, rehearsal: await rehearsalOf(backup, flags) };
}

async function rehearsalOf(backup: ClusterObjects, flags: RehearseFlags): Promise<Rehearsal> {
  const { against, policiesFromCluster } = flags;
  if (against !== undefined)
    return await connected({ kubeconfig: against }, (cluster) => rehearsedAgainst(cluster, backup, flags));
  const given = readGiven(flags);
  if (policiesFromCluster !== true) return await replayed(toInput(backup, given), flags);
  const { policies, definitions } = await connected(flags, readPolicies);
  const existing = [...definitions, ...given.existing];
  return await replayed(toInput(backup, { ...given, policies, existing }), flags);
}

const connected = <T>(flags: Parameters<typeof withCluster>[0], use: (cluster: UserCluster) => Promise<T>) =>
  withCluster(flags, 'restore rehearse', use, { parse: parseJson });

const replayed = (input: RehearsalInput, flags: RehearseFlags): Promise<Rehearsal> =>
  withProgress((line) =>
    rehearseRestore(input, flags, new Date(), (done, total, what) => {
      line.show({ what, done, total });
    }),
  );

/** Uses the kinds, objects and policies of the cluster, and a dry run of each new object. */
async function rehearsedAgainst(
  cluster: UserCluster,
  backup: ClusterObjects,
  flags: RehearseFlags,
): Promise<Rehearsal> {
  const given = readGiven(flags);
  const target = await readTarget(cluster, backup.objects, given.policies ?? []);
  const policies = given.policies ?? target.objects.filter(({ object }) => isOwn(object));
  const existing = [...given.existing, ...target.objects.filter(({ object }) => !isOwn(object))];
  const input = toInput(backup, { ...given, policies, existing });
  const { client } = cluster;
  const mayUser = createAccessReviews(client);
  const mayAsk = await canI(client, { verb: 'create', ...subjectAccessReviews });
  const { major, minor } = cluster.version;
  const targetVersion = flags.targetVersion ?? (major === 0 ? undefined : `${major}.${minor}`);
  const namespaces = new Set(
    existing
      .filter(({ object }) => textIn(object, 'kind') === 'Namespace')
      .map(({ object }) => textIn(object, 'metadata', 'name')),
  );
  const rehearsal = await replayed(
    {
      ...input,
      notes: [...input.notes, ...target.notes],
      dryRun: (outcomes) => dryRun(cluster, outcomes, (name) => namespaces.has(name)),
      ...(mayAsk ? { rightsOf: (guard: Guard) => rightsOf(guard, { client, mayUser }, NEVER) } : {}),
    },
    targetVersion === undefined ? flags : { ...flags, targetVersion },
  );
  return { ...rehearsal, findings: problemsFirst([...target.unread, ...rehearsal.findings]) };
}

const COMPONENT = 'deploy/components/restore-rehearsal';

/** Stores the result in a ConfigMap, and records an Event if it is worse than the previous one. */
async function recordResult(
  { client, now }: Pick<UserCluster, 'client' | 'now'>,
  namespace: string,
  { path, takenAt }: FoundBackup,
  findings: readonly Finding[],
): Promise<void> {
  const name = REHEARSAL_CONFIGMAP;
  const stored = await client.get<ConfigMap>(configMaps, { namespace, name });
  if (stored === undefined)
    throw new Error(`the ConfigMap ${namespace}/${name} does not exist: install ${COMPONENT}`);
  const before = parseData(stored.data);
  const problems = findings.filter(isProblem).map(({ reason, object }) => `${reason} ${object}`);
  const backup = basename(path, '.tar.gz');
  const result = rehearsalResult({ finishedAt: now(), backup, backupTakenAt: takenAt, problems }, before);
  await client.replace(configMaps, { ...stored, data: toData(result) });
  const note = noteOf(result, before);
  if (note === undefined) return;
  const warn = ({ err }: { readonly err?: unknown }, message: string): void =>
    console.error(`warning: ${message}: ${messageOf(err)}`);
  const { record, flush } = createEventRecorder({
    client,
    component: 'gatehouse',
    instance: 'gatehouse-restore-rehearsal',
    log: { warn },
  });
  const { uid } = stored.metadata ?? {};
  record({ ...note, regarding: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name, uid } });
  await flush();
}

const NOTES_SHOWN = 5;

function table({ findings, ...rehearsal }: Rehearsal): string {
  const colours = hasColours();
  const problems = findings.filter(isProblem);
  const others = findings.filter((one) => !isProblem(one));
  const notes = [...Map.groupBy(others, ({ reason }) => reason).values()];
  const shown = [...problems, ...notes.flatMap((same) => same.slice(0, NOTES_SHOWN))];
  const rows = shown.map(({ severity, reason, object, message }) => ({
    cells: [{ text: reason, tone: severity === 'problem' ? ('bad' as const) : ('warn' as const) }, object],
    lines: [message],
  }));
  const more = notes
    .filter(({ length }) => length > NOTES_SHOWN)
    .map((same) => `${same.length - NOTES_SHOWN} more ${same[0]?.reason ?? ''}: -o json lists all`);
  const parts = rows.length === 0 ? [] : [formatTable(['FINDING', 'OBJECT', 'MESSAGE'], rows, colours)];
  const summary = paint(
    { text: summaryOf(rehearsal.outcomes, problems), tone: problems.length === 0 ? 'good' : 'bad' },
    colours,
  );
  return `${[...parts, ...more, ...skippedLines(rehearsal.skipped), summary].join('\n')}\n`;
}

function summaryOf(outcomes: readonly Outcome[], problems: readonly Finding[]): string {
  const { restored, exists, lost } = countsOf(outcomes);
  return [
    `${counted(restored, 'object')} restored`,
    ...(exists > 0 ? [`${exists} exist already`] : []),
    ...(lost > 0 ? [`${lost} lost`] : []),
    problems.length === 0 ? 'no problems' : counted(problems.length, 'problem'),
  ].join(', ');
}

function countsOf(outcomes: readonly Outcome[]) {
  const count = (...results: readonly Outcome['result'][]) =>
    outcomes.filter(({ result }) => results.includes(result)).length;
  return {
    objects: outcomes.length,
    restored: outcomes.filter(isRestored).length,
    exists: count('exists', 'different'),
    lost: count('refused', 'kept', 'unlabelled', 'unserved'),
  };
}

function json({ outcomes, added, findings, skipped, notes }: Rehearsal): string {
  const problems = findings.filter(isProblem).length;
  const leftOut = Object.fromEntries(skipped);
  const summary = { ...countsOf(outcomes), problems, notes: findings.length - problems, leftOut };
  const objects = [...added, ...outcomes].map((outcome) => ({
    object: describeOutcome(outcome),
    result: outcome.result,
    message: outcome.message,
  }));
  return formatJson({ kind: 'Rehearsal', summary, findings, notes, objects });
}

function junit({ outcomes, findings }: Rehearsal): string {
  const byObject = Map.groupBy(findings, ({ object }) => object);
  const clean = outcomes.filter((outcome) => !byObject.has(describeOutcome(outcome))).length;
  const cases = [...byObject].map(([name, found]) => {
    const problems = found.filter(isProblem);
    const lines = (some: readonly Finding[]) => some.map(({ reason, message }) => `${reason}: ${message}`);
    const [first] = lines(problems);
    return {
      name,
      className: 'restore',
      ...(first === undefined ? {} : { failure: { message: first, details: lines(problems).join('\n') } }),
      output: lines(found.filter((one) => !isProblem(one))),
    };
  });
  const others = { name: `${counted(clean, 'object')} without findings`, className: 'restore', output: [] };
  return formatJunit('restore rehearse', [{ name: 'rehearsal', cases: [...cases, others] }]);
}

/** A reader could take an empty report for a success. */
function failure(output: RehearseFlags['output'], error: string): string {
  if (output === 'table') return '';
  if (output === 'json') return formatJson({ kind: 'Rehearsal', error });
  const cases = [{ name: 'input', className: 'restore', error, output: [] }];
  return formatJunit('restore rehearse', [{ name: 'rehearsal', cases }]);
}
