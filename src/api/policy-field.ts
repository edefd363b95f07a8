/** What descriptions of path fields say. */
export const FIELD_PATH =
  'A path such as `spec.datacenter`, `spec.disks[*].class` or `metadata.labels["example.com/rack"]`.';
