/** Checks that a leader renews the Lease, and that the clocks agree: windows and certificates depend on the time. */
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { valueOf } from '../../read-cluster/reading.ts';
import { judgeReading, logsOf, ok, podsOf, problem, unknown, warning, type Results } from '../finding.ts';
import { WARN_SKEW_MS } from '../../../../runtime/clock-skew.ts';

const DEFAULT_LEASE_S = 12;

export const checkLeader = ({ lease, namespace, now }: InstallationReadings): Results =>
  judgeReading(lease, (live) => {
    const { holderIdentity = '', leaseDurationSeconds = DEFAULT_LEASE_S, renewTime } = live?.spec ?? {};
    const name = `Lease ${namespace}/gatehouse`;
    const next = `${podsOf(namespace)}; ${logsOf(namespace)}`;
    if (live === undefined)
      return problem(`${name} does not exist: no replica has ever led in this namespace`, next);
    if (holderIdentity === '') return problem(`no replica holds the ${name}`, next);
    const age = renewTime === undefined ? Number.NaN : (now.getTime() - Date.parse(renewTime)) / 1_000;
    if (age < leaseDurationSeconds) return ok(`${holderIdentity} leads`);
    const renewed = Number.isNaN(age) ? 'has never renewed it' : `last renewed it ${Math.round(age)} s ago`;
    const seen = `${holderIdentity} holds the ${name} and ${renewed}: it has stopped, cannot reach the API server, or its clock is behind`;
    return problem(seen, next);
  });

export const checkClocks = ({ skewMs, lease, now }: InstallationReadings): Results =>
  [localClock(skewMs), leaderClock(valueOf(lease)?.spec?.renewTime, now)].flat();

function localClock(skewMs: number | undefined): Results {
  if (skewMs === undefined)
    return unknown(
      'the responses of the API server have no date',
      'check whether a proxy removes the Date header',
    );
  if (Math.abs(skewMs) <= WARN_SKEW_MS) return ok('the clocks of this machine and the API server agree');
  return warning(
    `the clock of this machine is ${seconds(skewMs)} ${skewMs > 0 ? 'ahead of' : 'behind'} the API server`,
    'synchronise it (timedatectl set-ntp true): client certificates and the times in reports depend on it',
  );
}

/** Reports only a clock that is ahead. If it is behind, the Lease looks stale, which the check `leader` reports. */
function leaderClock(renewTime: string | undefined, now: Date): Results {
  const aheadMs = renewTime === undefined ? 0 : Date.parse(renewTime) - now.getTime();
  if (aheadMs <= WARN_SKEW_MS) return [];
  return warning(
    `the clock of the leader is ${seconds(aheadMs)} ahead of the API server`,
    'synchronise the clock of its node; the metric gatehouse_clock_skew_seconds shows the skew of each replica',
  );
}

const seconds = (ms: number): string => `${Math.round(Math.abs(ms) / 1_000)} s`;
