/** `gatehouse restore rehearse`: what a restore of this backup would lose or break. */
import { GROUP } from '../../../api/group.ts';
import { parseJson, textIn } from '../../../json/json.ts';
import { withCluster, type UserCluster } from '../../connect.ts';
import type { PlacedObject } from '../../review/documents.ts';
import { hasColours, print } from '../../terminal/output.ts';
import { withProgress } from '../../terminal/progress.ts';
import { WrongUsage } from '../new-window.ts';
import { dryRun, readEverything, readTarget, type ClusterObjects } from './cluster.ts';
import { isProblem } from './findings.ts';
import { namesOf, type RehearseFlags } from './flags.ts';
import { readBackedUp, readGiven, toInput, type RehearsalInput } from './input.ts';
import { rehearseRestore } from './rehearsal.ts';
import { formatRehearsal, type Rehearsal } from './report.ts';

/**
 * Prints the findings.
 *
 * @param path undefined with `--from-cluster`
 * @returns 1 if there is a problem
 * @throws UnusableInput, UnusableBackup, WrongUsage, and an Error when an API server does not respond
 */
export async function rehearse(path: string | undefined, flags: RehearseFlags): Promise<0 | 1> {
  if ((path === undefined) === (flags.fromCluster !== true))
    throw new WrongUsage('name a backup, or use --from-cluster: one of the two');
  const backup = path === undefined ? await connected(flags, readEverything) : await readBackedUp(path);
  const { against } = flags;
  const rehearsal =
    against === undefined
      ? await replayed(toInput(backup, readGiven(flags), flags), flags)
      : await connected({ kubeconfig: against }, (cluster) => rehearsedAgainst(cluster, backup, flags));
  for (const note of rehearsal.notes) console.error(`note: ${note}`);
  await print(formatRehearsal(rehearsal, flags.output, hasColours()));
  return rehearsal.findings.some(isProblem) ? 1 : 0;
}

const connected = <T>(flags: Parameters<typeof withCluster>[0], use: (cluster: UserCluster) => Promise<T>) =>
  withCluster(flags, 'restore rehearse', use, parseJson);

const replayed = (input: RehearsalInput, flags: RehearseFlags): Promise<Rehearsal> =>
  withProgress((line) =>
    rehearseRestore(input, flags, new Date(), (done, total, what) => {
      line.show({ what, done, total });
    }),
  );

/** Into the cluster as it is now: its kinds, objects and policies, and a dry run of each new object. */
async function rehearsedAgainst(
  cluster: UserCluster,
  backup: ClusterObjects,
  flags: RehearseFlags,
): Promise<Rehearsal> {
  const given = readGiven(flags);
  const target = await readTarget(cluster, backup.objects, given.policies);
  const isOwn = ({ object }: PlacedObject) => textIn(object, 'apiVersion').startsWith(`${GROUP}/`);
  const policies = flags.policies === undefined ? target.objects.filter(isOwn) : given.policies;
  const existing = [...given.existing, ...target.objects.filter((one) => !isOwn(one))];
  const input = toInput(backup, { policies, existing }, { policies: [] });
  const rehearsal = await replayed({ ...input, notes: [...input.notes, ...target.notes] }, flags);
  const namespaces = new Set(
    existing
      .filter(({ object }) => textIn(object, 'kind') === 'Namespace')
      .map(({ object }) => textIn(object, 'metadata', 'name')),
  );
  const refused = await dryRun(cluster, rehearsal.outcomes, (name) => namespaces.has(name), namesOf(flags));
  const findings = [...rehearsal.findings, ...refused];
  return {
    ...rehearsal,
    findings: [...findings.filter(isProblem), ...findings.filter((one) => !isProblem(one))],
  };
}
