/** Groups of built-in kinds have no dot, or belong to Kubernetes. */
export const isOfCustomKinds = (group: string): boolean =>
  group.includes('.') && !/(^|\.)k8s\.io$/.test(group);
