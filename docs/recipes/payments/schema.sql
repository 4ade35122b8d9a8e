-- The tables of payments.go. The lock's own come from
-- "holdfast schema apply", the fence's from "holdfast fence schema postgres".
CREATE TABLE account (
  id      bigint PRIMARY KEY,
  balance bigint NOT NULL -- in cents
);
CREATE TABLE payment (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account bigint NOT NULL REFERENCES account,
  amount  bigint NOT NULL CHECK (amount > 0)
);
