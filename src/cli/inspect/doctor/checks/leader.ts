/** Whether somebody leads: policies, certificates and windows stand still otherwise. */
import type { Evidence } from '../evidence.ts';
import { ok, problem, type Finding } from '../finding.ts';
import { judgeLook } from '../look.ts';

const CHECK = 'leader';
const DEFAULT_LEASE_S = 15;

export const checkLeader = ({
  lease,
  namespace,
  now,
}: Pick<Evidence, 'lease' | 'namespace' | 'now'>): readonly Finding[] =>
  judgeLook(CHECK, lease, (live) => {
    const { holderIdentity = '', leaseDurationSeconds = DEFAULT_LEASE_S, renewTime } = live?.spec ?? {};
    const name = `Lease ${namespace}/gatehouse`;
    const next = `kubectl -n ${namespace} get pods -l app.kubernetes.io/name=gatehouse; kubectl -n ${namespace} logs deployment/gatehouse`;
    if (live === undefined)
      return [problem(CHECK, `there is no ${name}: no replica has ever led in this namespace`, next)];
    if (holderIdentity === '') return [problem(CHECK, `nobody holds the ${name}`, next)];
    const age = renewTime === undefined ? Number.NaN : (now.getTime() - Date.parse(renewTime)) / 1_000;
    if (age < leaseDurationSeconds) return [ok(CHECK, `${holderIdentity} leads`)];
    const since = Number.isNaN(age) ? 'never' : `${Math.round(age)} s ago`;
    return [
      problem(
        CHECK,
        `${holderIdentity} holds the ${name}, and renewed it ${since}: it is gone, cannot reach the API server, or its clock is behind`,
        next,
      ),
    ];
  });
