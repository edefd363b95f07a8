/** Whether clocks agree: windows and certificates begin and end by them. */
import type { Evidence } from '../evidence.ts';
import { ok, warning, type Finding } from '../finding.ts';
import { valueOf } from '../look.ts';

const CHECK = 'clocks';
/** As replicas judge their own; in milliseconds. */
const MOST_MS = 30_000;

export function checkClocks({
  skewMs,
  lease,
  now,
}: Pick<Evidence, 'skewMs' | 'lease' | 'now'>): readonly Finding[] {
  return [...thisMachine(skewMs), ...theLeader(valueOf(lease)?.spec?.renewTime, now)];
}

function thisMachine(skewMs: number | undefined): readonly Finding[] {
  if (skewMs === undefined)
    return [
      {
        check: CHECK,
        severity: 'unknown',
        seen: 'the API server does not say what time it is',
        next: 'look for a proxy that drops the header Date',
      },
    ];
  if (Math.abs(skewMs) <= MOST_MS) return [ok(CHECK, 'this machine and the API server agree on the time')];
  return [
    warning(
      CHECK,
      `the clock of this machine is ${seconds(skewMs)} ${skewMs > 0 ? 'ahead of' : 'behind'} that of the API server`,
      'synchronise it (timedatectl set-ntp true): kubeconfig certificates and times in reports depend on it',
    ),
  ];
}

/** The leader dates its lease by its own clock. One that is late may just not renew it: the check leader says so. */
function theLeader(renewTime: string | undefined, now: Date): readonly Finding[] {
  const aheadMs = renewTime === undefined ? 0 : Date.parse(renewTime) - now.getTime();
  return aheadMs > MOST_MS
    ? [
        warning(
          CHECK,
          `the replica that leads dates its lease ${seconds(aheadMs)} ahead of the API server`,
          'synchronise the clock of its node; the metric gatehouse_clock_skew_seconds has it for each replica',
        ),
      ]
    : [];
}

const seconds = (ms: number): string => `${Math.round(Math.abs(ms) / 1_000)} s`;
