/** Gatehouse's writes, according to the audit log of the API server. */
import type { AuditEvent, ControlPlane } from './control-plane.ts';
import { isGatehouse } from './control-plane-users.ts';

/** Gatehouse writes these continuously by design. */
const NOT_COUNTED = new Set(['leases', 'events', 'selfsubjectaccessreviews', 'selfsubjectreviews']);
const WRITES = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);

/** Gatehouse's successful writes, without leases, Events and access reviews. @param replica only its writes */
export function writesOf(plane: Pick<ControlPlane, 'auditLog'>, replica?: string): readonly AuditEvent[] {
  return plane.auditLog().filter(({ user, verb, objectRef, responseStatus, userAgent }) => {
    const code = responseStatus?.code ?? 0;
    return (
      isGatehouse(user.username) &&
      WRITES.has(verb) &&
      !NOT_COUNTED.has(objectRef?.resource ?? '') &&
      code >= 200 &&
      code < 300 &&
      (replica === undefined || (userAgent ?? '').includes(`(${replica})`))
    );
  });
}

export function target({ objectRef }: AuditEvent): string {
  const { resource = '', subresource, namespace, name = '' } = objectRef ?? {};
  return `${[resource, subresource].filter(Boolean).join('/')} ${[namespace, name].filter(Boolean).join('/')}`;
}

export function countByTarget(events: readonly AuditEvent[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const event of events) counts[target(event)] = (counts[target(event)] ?? 0) + 1;
  return counts;
}
