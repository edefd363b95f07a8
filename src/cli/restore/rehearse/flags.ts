/** The flags of `gatehouse restore rehearse`. Those that Velero has too have its names. */
import type { NormalSelector } from '../../../json/label-selector.ts';
import type { RestoreNames } from '../../../restore/backup/restored-object.ts';
import { OLDEST_MINOR } from '../../../kube/supported-version.ts';
import type { SelectionOptions } from '../../../restore/backup/selection.ts';
import { parseLabelRequirements } from '../../../machinery/selectors/label-requirements.ts';
import { ApiFailure } from '../../../machinery/failure.ts';
import { WrongUsage } from '../new-window.ts';
import type { InputFlags } from './input.ts';

export interface RehearseFlags extends InputFlags, Omit<SelectionOptions, 'selector'> {
  readonly fromCluster?: boolean;
  /** A folder with backups. */
  readonly newestIn?: string;
  readonly policiesFromCluster?: boolean;
  /** Keep the result in the cluster. */
  readonly record?: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
  /** The kubeconfig of the target. */
  readonly against?: string;
  /** E.g. `1.36`. */
  readonly targetVersion?: string;
  readonly selector?: string;
  /** As `from:to`. */
  readonly namespaceMappings: readonly string[];
  readonly existingResourcePolicy: 'none' | 'update';
  readonly veleroNamespace: string;
  /** False: rehearse a restore for which no window opens. */
  readonly window: boolean;
  readonly output: 'table' | 'json' | 'junit';
}

/** @throws WrongUsage unless the flags name one backup, and the policies once */
export function checkSources(
  path: string | undefined,
  { fromCluster, newestIn, policies, policiesFromCluster, against, record }: RehearseFlags,
): void {
  const backups = [path !== undefined, newestIn !== undefined, fromCluster === true];
  if (backups.filter(Boolean).length !== 1)
    throw new WrongUsage('name a backup, or use --newest-in or --from-cluster: one of the three');
  if (policiesFromCluster === true && (policies !== undefined || against !== undefined))
    throw new WrongUsage('--policies-from-cluster: not together with -p or --against');
  if (record === true && newestIn === undefined) throw new WrongUsage('--record: only with --newest-in');
}

/** The names that Velero writes into labels. @throws WrongUsage */
export const namesOf = ({ namespaceMappings }: RehearseFlags): RestoreNames => ({
  backup: 'backup',
  restore: 'rehearsal',
  namespaceMapping: parseMapping(namespaceMappings),
});

/** The minor version of Kubernetes 1.x; undefined: the newest. @throws WrongUsage */
export function minorOf(version: string | undefined): number | undefined {
  if (version === undefined) return undefined;
  const [, minor] = /^v?1\.(\d+)(?:[.+-].*)?$/.exec(version) ?? [];
  if (minor === undefined) throw new WrongUsage(`--target-version ${version}: write it as 1.36`);
  if (Number(minor) < OLDEST_MINOR)
    throw new WrongUsage(
      `--target-version ${version}: Gatehouse supports Kubernetes 1.${OLDEST_MINOR} and newer`,
    );
  return Number(minor);
}

/** @throws WrongUsage unless each pair has the form `from:to` */
export function parseMapping(pairs: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [from = '', to = '', ...more] = pair.split(':');
      if (from === '' || to === '' || more.length > 0)
        throw new WrongUsage(`--namespace-mappings ${pair}: write it as from:to`);
      return [from, to];
    }),
  );
}

const OPERATORS = { in: 'In', notin: 'NotIn', exists: 'Exists', '!': 'DoesNotExist' } as const;

/** @throws WrongUsage for a selector that Velero would refuse */
export function selectorOf(text: string | undefined): NormalSelector | undefined {
  if (text === undefined) return undefined;
  try {
    return {
      matchExpressions: parseLabelRequirements(text).map(({ key, operator, values }) => {
        if (operator === 'gt' || operator === 'lt')
          throw new WrongUsage(`--selector ${text}: < and > are not supported`);
        return { key, operator: OPERATORS[operator], values };
      }),
    };
  } catch (error) {
    if (error instanceof ApiFailure) throw new WrongUsage(`--selector ${text}: ${error.message}`);
    throw error;
  }
}
