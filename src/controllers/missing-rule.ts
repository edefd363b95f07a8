/** A missing permission, explained by the rule that grants it. */

/** As the authorizer of Kubernetes says it: `User "x" cannot patch resource "users/status" in API group "example.com" …` */
const FORBIDDEN = / cannot (\w+) resource "([^"]+)" in API group "([^"]*)"/;
/** As Kubernetes refuses a RoleBinding whose role has permissions that the writer lacks. */
const ESCALATION = 'is attempting to grant RBAC permissions not currently held';

/** The message, with what to do if a permission is missing. */
export function explainRefusal(message: string): string {
  const [, verb, resource, group] = FORBIDDEN.exec(message) ?? [];
  if (verb !== undefined) {
    const rule = JSON.stringify({ apiGroups: [group], resources: [resource], verbs: [verb] });
    return `Gatehouse needs the rule ${rule}: apply the output of "gatehouse manifests --handlers", or add it to "rules" of the controller: ${message}`;
  }
  if (message.includes(ESCALATION))
    return `Gatehouse needs the verb "bind" for the role, or its permissions: add it to "rules" of the controller: ${message}`;
  return message;
}
