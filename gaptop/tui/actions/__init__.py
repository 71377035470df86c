"""What keys do, by area: each class holds the actions of one, and the application is made of them."""
