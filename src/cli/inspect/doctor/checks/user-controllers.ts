/** Checks that the controllers of users work, and that removed ones left no finalizers. */
import { counted, someOf } from '../../../../json/counted.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { userControllersPart } from '../../status/report/user-controllers.ts';
import { judgeReading, ok, orElse, problem, unknown, warning, type Results } from '../finding.ts';

export const checkUserControllers = (readings: InstallationReadings): Results => {
  const { userControllers, lease, namespace, now } = readings;
  return judgeReading(userControllers, () => {
    const { part, details } = userControllersPart(userControllers, lease, namespace, now);
    const { unread, items } = part;
    const found = [
      ...unread.map(({ what, message }) =>
        unknown(`${what}: ${message}`, `see the check leader; kubectl -n ${namespace} get configmaps`),
      ),
      ...details.map(({ object, message, next }) => problem(`${object}: ${message}`, next)),
      ...[leftBehind(readings)].flat(),
    ];
    const works = items.length === 1 ? 'works' : 'work';
    const seen =
      items.length === 0 ? 'no controllers of users' : `${counted(items.length, 'controller')} ${works}`;
    return orElse(found, ok(seen));
  });
};

/** Nothing removes such a finalizer, so the object and its namespace can never be deleted. */
const leftBehind = ({ finalized }: Pick<InstallationReadings, 'finalized'>): Results =>
  finalized.flatMap(({ kind, objects }) =>
    judgeReading(objects, (all) =>
      [...Map.groupBy(all, ({ controller }) => controller)].map(([controller, left]) =>
        warning(
          `the controller ${controller} doesn't exist, and its finalizer gatehouse.dev/controller-${controller} is left on ${counted(left.length, 'object')} of ${kind}: ${someOf(left.map(({ object }) => object))}`,
          `run the controller again until they are deleted, or remove the finalizer (kubectl edit ${kind} NAME)`,
        ),
      ),
    ),
  );
